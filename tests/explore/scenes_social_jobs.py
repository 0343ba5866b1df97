"""The social network's jobs beside members, and the photos of posts."""

from __future__ import annotations

import io
from datetime import timedelta
from itertools import count
from typing import Any

from squinney import assembly, content, social
from squinney.clock import utcnow
from squinney.content import Nodes, Photos
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.social import Network
from squinney.social.jobs import deliver_posts, remove_outdated_entries
from tests.actions import method_of
from tests.explore.scene import Act, Scene
from tests.explore.scenes_social import LONG_AGO, OPERATIONS, _do, _let_tasks_be_due, _network, _people
from tests.systems.content.pictures import jpeg

PHOTO = jpeg("red", (8, 8))
_ticks = count()
_begin = utcnow()


def _ticking(db: Db) -> Network:
    """Return a network whose clock never shows a time twice, because a relation must be older than a post to show it.

    It counts milliseconds, so that all that happens is in the same minute, for which posts are counted.
    """
    return Network(db, clock=lambda: _begin + timedelta(milliseconds=next(_ticks)))


# ---- delivering and removing ----


def _undelivered(db: Db) -> dict[str, str]:
    """Let bob and cid follow ann, whose public post is not delivered yet."""
    network = _ticking(db)
    for one in ("ann", "bob", "cid"):
        network.join(one, user=one)
    for me in ("bob", "cid"):
        network.circle(me, "ann", "friends")
    network.circle("ann", "bob", "friends")
    return {"post": network.post("ann", "status", {"text": "hello"}, ["*public*"])["id"]}


def _deliver(db: Db, state: Any) -> None:
    deliver_posts(db)


def _deliver_and_remove(db: Db, state: Any) -> None:
    deliver_posts(db)
    remove_outdated_entries(db)


_on_network = method_of(_ticking)


def _follow_again(db: Db, state: Any) -> None:
    """End a relation and begin it again: it brings what was written before."""
    _ticking(db).uncircle("bob", "ann", "friends")
    _ticking(db).circle("bob", "ann", "friends")


def _every_follower_has_the_news(db: Db, state: Any) -> None:
    """Assert that after all tasks, exactly those have the post who follow its author, since before or after it."""
    for _ in range(3):  # tasks put further tasks
        _let_tasks_be_due(db)
        deliver_posts(db)
    remove_outdated_entries(db)
    assert db["squinney.tasks"].count_documents({}) == 0
    posts = {post["_id"]: post for post in db["social.posts"].find()}
    edges = db["social.edges"].find({"_id.other": "ann", "circled_at": {"$exists": True}})
    expected = {(edge["_id"]["owner"], id_) for edge in edges for id_ in posts}
    assert {(entry["_id"]["u"], entry["_id"]["p"]) for entry in db["social.news"].find()} == expected


DELIVERED: dict[str, Act] = {
    "deliver": _deliver,
    "deliver, remove outdated": _deliver_and_remove,
    "follow again": _follow_again,
    "uncircle": _on_network("uncircle", "cid", "ann", "friends"),
    "delete post": _on_network("delete_post", "ann", "{post}"),
    "leave": _on_network("leave", "bob"),
    "erase": _on_network("erase", "ann"),
}

# ---- merging the posts of an author with many followers ----


def _merging(db: Db) -> dict[str, str]:
    """Let ann have more followers than posts are delivered to; the task that begins to merge her posts is due."""
    state = _undelivered(db)
    _ticking(db).join("dan", user="dan")
    Network(db, merge_above=1).deliver()
    _let_tasks_be_due(db)
    return state


def _every_follower_reads_the_news(db: Db, state: Any) -> None:
    deliver_posts(db)
    posts = list(db["social.posts"].find())
    for edge in db["social.edges"].find({"_id.other": "ann", "circled_at": {"$exists": True}}):
        # A follow beside a post that is not committed yet may miss it, if its time is the earlier one.
        expected = {post["_id"] for post in posts if edge["circled_at"] <= post["ts"] or post["_id"] == state["post"]}
        shown = {item["id"] for item in _ticking(db).news(edge["_id"]["owner"]).items}
        assert expected <= shown <= {post["_id"] for post in posts}


def _post_more(db: Db, state: Any) -> None:
    _ticking(db).post("ann", "status", {"text": "more"}, ["*public*"], key="k")


MERGED: dict[str, Act] = {
    "deliver": _deliver,
    "post": _post_more,
    "circle": _on_network("circle", "dan", "ann", "friends"),
    "follow again": _follow_again,
}

# ---- members ----


def _blocked(db: Db) -> dict[str, str]:
    """Let ann block bob."""
    state = _people(db)
    _network(db).block("ann", "bob")
    return state


def _load(db: Db, state: Any) -> None:
    list(_network(db).load([("ann", "bob"), ("dan", "ann"), ("cid", "bob")]))


MEMBERS: dict[str, Act] = {
    "unblock": _do("unblock", "ann", "bob"),
    "block": _do("block", "bob", "ann"),
    "load": _load,
    "join": _do("join", "Dan", user="dan"),
    "circle": _do("circle", "ann", "cid", "following"),
    "count photo": _do("count_photo", "ann"),
    "leave": OPERATIONS["leave"],
}

# ---- photos of posts ----


def _shown(db: Db) -> dict[str, str]:
    """Store three photos by ann, two of them long ago: one is shown by a post, one is lost."""
    schema.apply(db, content.COLLECTIONS)
    network, store = _network(db), assembly.kept_photos(Nodes(db), Photos(db))
    network.join("ann", user="ann")
    old, lost = (store.keep(io.BytesIO(PHOTO), "ann", "Ann") for _ in range(2))
    db["content.nodes"].update_many({}, {"$set": {"metadata.created": LONG_AGO}})
    post = network.post("ann", "photo", {"file": old}, ["*public*"])["id"]
    return {"post": post, "lost": lost, "new": store.keep(io.BytesIO(PHOTO), "ann", "Ann")}


def _post_new(db: Db, state: Any) -> None:
    _network(db).post("ann", "photo", {"file": state["new"]}, ["*public*"], key="k")


def _photos_of_posts_are_stored(db: Db, state: Any) -> None:
    stored = {node["_id"] for node in db["content.nodes"].find({"metadata.type": "photo"})}
    for post in db["social.posts"].find():
        assert post["detail"]["file"] in stored


PHOTOS: dict[str, Act] = {
    "forget lost photos": lambda db, state: assembly.FORGET_LOST_PHOTOS.run(db),
    "post new": _post_new,
    "delete post": OPERATIONS["delete post"],
    "erase": _do("erase", "ann"),
}

SCENES = [
    Scene(
        "social, delivered",
        "social",
        _undelivered,
        DELIVERED,
        composed=["deliver", "deliver, remove outdated", "follow again"],
        check=_every_follower_has_the_news,
        age=_let_tasks_be_due,
    ),
    Scene(
        "social, merged",
        "social",
        _merging,
        MERGED,
        composed=["deliver", "follow again"],
        check=_every_follower_reads_the_news,
        age=_let_tasks_be_due,
    ),
    Scene("social, members", "social", _blocked, MEMBERS, age=_let_tasks_be_due),
    Scene(
        "social, photos",
        "social",
        _shown,
        PHOTOS,
        composed=["forget lost photos"],
        check=_photos_of_posts_are_stored,
        age=_let_tasks_be_due,
    ),
    Scene(
        "social, repaired",
        "social",
        _people,
        {name: OPERATIONS[name] for name in ("circle", "comment")},
        between=[social.repair],
    ),
]
