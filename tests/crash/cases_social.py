"""Crash cases of the social network."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from squinney import assembly, content
from squinney.content import Nodes, Photos
from squinney.errors import Unavailable
from squinney.mongo.schema import Db
from squinney.patterns.queue import Queue, Task
from squinney.social import AlreadyJoined, Network, UnknownPost, UnknownUser, tasks
from squinney.social.demo import PEOPLE
from squinney.social.jobs import remove_outdated_entries
from squinney.social.news import delivery
from squinney.testing import Case
from tests.actions import method_of
from tests.systems.content.pictures import jpeg

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
READERS = [f"r{number}" for number in range(5)]
demo_module = sys.modules["squinney.social.demo"]  # the package has a function of that name


def _network(db: Db, **options: Any) -> Network:
    return Network(db, **options)


def _work(db: Db, **options: Any) -> None:
    """Process tasks as the worker does, but keep failed tasks: without a server, returning them would take seconds."""

    def fail(queue: Queue, task: Task, error: str) -> bool:
        raise Unavailable(error)

    with patch.object(Queue, "fail", fail):
        _network(db, **options).deliver()


def _let_tasks_be_due(db: Db) -> None:
    db["squinney.tasks"].update_many({}, {"$set": {"due_at": LONG_AGO}})


def _people(db: Db) -> Any:
    for one in ("ann", "bob"):
        _network(db).join(one, user=one)


def _people_and_a_post(db: Db) -> None:
    _people(db)
    _network(db).post("bob", "status", {"text": "hello"}, ["*public*"])


def _follow_and_deliver(db: Db, state: Any) -> None:
    with suppress(Unavailable):
        _network(db).circle("ann", "bob", "friends")
    _work(db)


def _post_with_comment(db: Db, readers: list[str] = READERS) -> Any:
    """Create ann with some followers and a post, and a comment by bob."""
    _people(db)
    network = _network(db)
    list(network.load([(reader, "ann") for reader in (*readers, "bob")]))
    network.circle("ann", "bob", "friends")
    post = network.post("ann", "status", {"text": "hello"}, ["*public*"])["id"]
    return {"post": post, "comment": network.comment("bob", post, "well")}


def _delivered(db: Db, readers: list[str] = READERS) -> Any:
    state = _post_with_comment(db, readers)
    _network(db).deliver()
    return state


_act = method_of(_network)


def _joined_once(db: Db, state: Any) -> None:
    with suppress(AlreadyJoined):
        _network(db).join("Cid", user="cid")
    assert _network(db).find("cid") == "cid"


def _circle_is_whole(db: Db, state: Any) -> None:
    network = _network(db)
    circled = [item["id"] for item in network.circles("ann").items]
    followers = [item["id"] for item in network.followers("bob").items]
    assert ("bob" in circled) == ("ann" in followers)
    assert network.unseen("bob") == len(followers)
    network.deliver()
    assert len(network.news("ann").items) == len(followers), "the follow brings the older post"


def _is_blocked_or_not(db: Db, state: Any) -> None:
    network = _network(db)
    blocked = [item["id"] for item in network.blocked("ann").items]
    try:
        network.get_post("bob", state["post"])
        assert blocked == []
    except UnknownPost:
        assert blocked == ["bob"]


def _posted_once(db: Db, state: Any) -> None:
    """Repeat the call with its key. The post is written once, and each reader has it once."""
    network = _network(db)
    for _ in range(2):
        network.post("ann", "status", {"text": "more"}, ["*public*"], key="k")
    network.deliver()
    for reader in READERS:
        assert [item["detail"]["text"] for item in network.news(reader).items] == ["more", "hello"]


def _commented_once(db: Db, state: Any) -> None:
    network = _network(db)
    for _ in range(2):
        network.comment("bob", state["post"], "twice", key="k")
    assert network.get_post("ann", state["post"])["comment_count"] == 2


def _comment_is_whole(db: Db, state: Any) -> None:
    post = _network(db).get_post("ann", state["post"])
    assert len(post["comments"]) == post["comment_count"] == len(_network(db).comments("ann", state["post"]).items)


def _deleted_or_not(db: Db, state: Any) -> None:
    there = db["social.posts"].count_documents({})
    assert db["social.comments"].count_documents({}) == there
    assert len(_network(db).news("bob").items) == there


def _deliver(db: Db, state: Any) -> None:
    """Deliver in small batches, so that the process can die between any two of them."""
    with patch.object(delivery, "BATCH", 2):
        _work(db, merge_above=3, settle_seconds=0)


def _each_reader_has_the_post_once(db: Db, state: Any) -> None:
    network = _network(db)
    for reader in READERS:
        assert [item["id"] for item in network.news(reader).items] == [state["post"]]
    merged = network.post("ann", "status", {"text": "more"}, ["*public*"])["id"]
    network.deliver()
    for reader in READERS:
        assert [item["id"] for item in network.news(reader).items] == [merged, state["post"]]
    network.delete_post("ann", merged)  # so that the check can run again


def _erased_or_not(db: Db, state: Any) -> None:
    """A finished erasure leaves nothing; an erasure that did not begin leaves everything."""
    try:
        assert _network(db).get_post("bob", state["post"])["comment_count"] == 1
    except UnknownPost:
        assert db["social.posts"].count_documents({}) == db["social.comments"].count_documents({}) == 0
        assert "ann" not in str(list(db["social.edges"].find())) + str(list(db["social.users"].find()))
    else:
        assert _network(db).get("ann")["id"] == "ann"


def _erase(db: Db, state: Any) -> None:
    with suppress(UnknownUser):
        _network(db).erase("ann")
    with patch.object(tasks, "ERASED_AT_ONCE", 2):
        _work(db)


def _leave(db: Db, state: Any) -> None:
    with suppress(UnknownUser):
        _network(db).leave("ann")
    _work(db)


def _left_or_not(db: Db, state: Any) -> None:
    """A member who left is in no circle; a member who did not leave is still in all of them."""
    network = _network(db)
    try:
        assert network.get("ann")["circles"] == [{"name": "friends", "count": 1}]
    except UnknownUser:
        assert network.get("bob")["circles"] == []
        assert db["social.edges"].count_documents({}) == 0


def _load(db: Db, state: Any) -> None:
    with patch("squinney.social.members.graph_import.LOADED_AT_ONCE", 3):
        list(_network(db).load([(reader, "ann") for reader in READERS]))


def _loaded(db: Db, state: Any) -> None:
    list(_network(db).load([(reader, "ann") for reader in READERS]))
    assert {item["id"] for item in _network(db).followers("ann").items} == set(READERS)


def _left(db: Db) -> Any:
    state = _delivered(db)
    _network(db).delete_post("ann", state["post"])
    return state


def _swept(db: Db, state: Any) -> None:
    assert db["social.news"].count_documents({}) == 0


def _shown(db: Db) -> Any:
    """Create two posts by ann with photos that were stored long ago."""
    _people(db)
    photos = [_store(db).keep(io.BytesIO(jpeg("red")), "ann", "Ann") for _ in range(2)]
    db["content.nodes"].update_many({}, {"$set": {"metadata.created": LONG_AGO}})
    posts = [_network(db).post("ann", "photo", {"file": photo}, ["*public*"])["id"] for photo in photos]
    return {"photos": photos, "posts": posts}


def _store(db: Db) -> Any:
    return assembly.kept_photos(Nodes(db), Photos(db))


def _withdraw(db: Db, state: Any) -> None:
    _network(db).delete_post("ann", state["posts"][0])
    assembly.FORGET_LOST_PHOTOS.run(db)


def _photos_are_those_of_posts(db: Db, state: Any) -> None:
    assembly.FORGET_LOST_PHOTOS.run(db)
    shown = {post["detail"]["file"] for post in _network(db).wall(None, "ann").items}
    assert state["photos"][1] in shown
    assert {item["_id"] for item in _store(db).list().items} == shown


def _demo(db: Db, state: Any) -> None:
    """Create a smaller demo, because crashing at every write of the whole one would take minutes."""
    few = {"PEOPLE": dict(list(PEOPLE.items())[:2]), "CIRCLED": [("ada", "ben", "Orchestra")]}
    post = (1, "ben", "*public*", "ada", "status", {"text": "hello"}, [("ada", "well")])
    with patch.multiple(demo_module, **few, POSTS=[post]):
        demo_module.demo(db)


def _demo_continues(db: Db, state: Any) -> None:
    _demo(db, None)
    assert [post["comment_count"] for post in _network(db).wall("demo-ada", "demo-ben").items] == [1]
    assert [item["kind"] for item in _network(db).notices("demo-ada").items] == ["wall"]


def _case(name: str, prepare: Any, act: Any, check: Any, **options: Any) -> Case:
    return Case(name, "social", prepare, act, check, age=_let_tasks_be_due, **options)


def _counted_or_not(db: Db, state: Any) -> None:
    (ann,) = db["social.users"].find({"_id": "ann"})
    assert ann.get("rates", {}).get("photos", {}).get("count", 0) <= 1


CASES = [
    _case("Network.join", lambda db: None, _act("join", "Cid", user="cid"), _joined_once),
    _case("Network.circle", _people_and_a_post, _act("circle", "ann", "bob", "friends"), _circle_is_whole),
    _case("Network.uncircle", _post_with_comment, _act("uncircle", "ann", "bob", "friends"), _comment_is_whole),
    _case("Network.block", _post_with_comment, _act("block", "ann", "bob"), _is_blocked_or_not),
    _case("Network.unblock", _post_with_comment, _act("unblock", "ann", "bob"), _is_blocked_or_not),
    _case(
        "Network.post",
        _post_with_comment,
        _act("post", "ann", "status", {"text": "more"}, ["*public*"], key="k"),
        _posted_once,
    ),
    _case("Network.count_photo", _people, _act("count_photo", "ann"), _counted_or_not),
    _case("Network.comment", _post_with_comment, _act("comment", "bob", "{post}", "twice", key="k"), _commented_once),
    _case("Network.delete_post", _delivered, _act("delete_post", "ann", "{post}"), _deleted_or_not),
    _case("Network.delete_comment", _delivered, _act("delete_comment", "ann", "{comment}"), _comment_is_whole),
    _case(
        "Network.deliver",
        _post_with_comment,
        _deliver,
        _each_reader_has_the_post_once,
        covers=["job:deliver-social-posts"],
    ),
    _case("Network.deliver, older posts", _people_and_a_post, _follow_and_deliver, _circle_is_whole),
    _case("Network.erase", lambda db: _delivered(db, READERS[:1]), _erase, _erased_or_not),
    _case("Network.leave", lambda db: _delivered(db, READERS[:1]), _leave, _left_or_not),
    _case("Network.load", lambda db: None, _load, _loaded),
    _case("job:remove-outdated-entries", _left, lambda db, state: remove_outdated_entries(db), _swept),
    _case("job:forget-lost-photos", _shown, _withdraw, _photos_are_those_of_posts, collections=content.COLLECTIONS),
    _case("social.demo", lambda db: None, _demo, _demo_continues),
]
