"""The operations of `Network`, and what other members see of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.racing import at_once
from tests.sizes import IN_FULL, heavy
from tests.systems.social.conftest import Ticking

from squinney.errors import Invalid
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.patterns import paging
from squinney.social import (
    AlreadyJoined,
    Blocked,
    Network,
    SocialLimit,
    TooFast,
    UnknownPost,
    UnknownUser,
    find_problems,
    problem_queries,
    queries,
    repair,
    rules,
)
from squinney.social.jobs import remove_outdated_entries
from squinney.testing.server_commands import watched
from squinney.transactions import in_transaction

People = Callable[..., list[str]]
PUBLIC = ["*public*"]


def write_status(
    network: Network, me: str, text: str = "hello", circles: list[str] = PUBLIC, to: str | None = None
) -> str:
    return network.post(me, "status", {"text": text}, circles, to)["id"]


def ids(page: object) -> list[str]:
    return [item["id"] for item in page.items]  # type: ignore[attr-defined]


def finish_tasks(network: Network, db: Db) -> None:
    """Process all tasks, including those with a delay."""
    network.deliver()
    db["squinney.tasks"].update_many({}, {"$set": {"due_at": datetime(2000, 1, 1, tzinfo=UTC)}})
    network.deliver()


# ---- people ----


def test_members_with_the_same_name_get_different_handles(network: Network) -> None:
    made = [network.join("Zoë $mith/2 🦊")["handle"] for _ in range(3)]
    assert made == ["zoe-mith-2", "zoe-mith-2-2", "zoe-mith-2-3"]


def test_a_member_cannot_join_again(network: Network, people: People) -> None:
    people("ann")
    with pytest.raises(AlreadyJoined):
        network.join("Ann", user="ann")


@pytest.mark.parametrize(
    "name", ["", " ", "x" * 101, "🦊" * 10_000, "a\nb", "a\0b", 7, "\ud800", "\u200d", "\u3164 \u2800", "\u202eevil"]
)
def test_a_name_that_cannot_be_shown_is_refused(network: Network, people: People, name: str) -> None:
    ann, bob = people("ann", "bob")
    with pytest.raises(Invalid):
        network.join(name)
    with pytest.raises(Invalid):
        network.circle(ann, bob, name)


@pytest.mark.parametrize("name", ["a.b", "$set", "x/y", "👩\u200d👧", "with space", "name'\"<b>"])
def test_special_characters_in_circle_names_are_safe(network: Network, people: People, name: str) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    assert network.circle(ann, bob, name) == [name]
    post = write_status(network, ann, circles=[name])
    assert network.get_post(bob, post)["circles"] == [], "only the owner sees the names of circles"
    assert network.get_post(ann, post)["circles"] == [name]
    with pytest.raises(UnknownPost):
        network.get_post(cid, post)
    assert network.uncircle(ann, bob, name) == []
    assert network.get(ann)["circles"] == []


def test_a_new_name_is_seen_everywhere_at_once(network: Network, people: People) -> None:
    ann, bob = people("ann", "bob")
    network.circle(bob, ann, "friends")
    post = write_status(network, ann)
    network.comment(ann, post, "and more")
    network.deliver()
    network.rename(ann, "Anne")
    seen = network.news(bob).items[0]
    assert (seen["by"]["name"], seen["comments"][0]["by"]["name"]) == ("Anne", "Anne")
    assert network.circles(bob).items[0]["name"] == "Anne"


def test_a_profile_shows_the_relation_to_the_viewer(network: Network, people: People) -> None:
    ann, bob = people("ann", "bob")
    network.edit_profile(ann, {"about": "Looms", "link": "https://example.com"})
    network.circle(bob, ann, "friends")
    seen = network.profile(bob, ann)
    assert (seen["about"], seen["followers"], seen["circled"], seen["follows_you"]) == ("Looms", 1, ["friends"], False)
    assert network.profile(None, ann)["circled"] == []
    network.block(ann, bob)
    with pytest.raises(UnknownUser):
        network.profile(bob, ann)
    with pytest.raises(Invalid):
        network.profile({"$gt": ""}, bob)  # type: ignore[arg-type]


def test_members_who_left_are_not_counted(network: Network, people: People, social_db: Db) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    for other in (bob, cid):
        network.circle(ann, other, "friends")
        network.circle(other, ann, "friends")
    network.leave(bob)
    network.deliver()
    assert network.profile(None, ann)["followers"] == len(network.followers(ann).items) == 1
    assert network.get(ann)["circles"] == [{"name": "friends", "count": 1}]
    assert list(find_problems(social_db)) == []


def test_late_tasks_do_not_touch_a_user_who_joined_again(social_db: Db) -> None:
    network = Network(social_db, settle_seconds=3_600)
    for one in ("ann", "bob"):
        network.join(one.title(), user=one)
    network.erase("ann")
    network.deliver()
    network.join("Ann", user="ann")
    network.circle("ann", "bob", "friends")
    network.circle("bob", "ann", "friends")
    post = write_status(network, "ann", to="bob")
    social_db["squinney.tasks"].update_many({}, {"$set": {"due_at": datetime(2020, 1, 1, tzinfo=UTC)}})
    network._queue.put({"do": "erase", "user": "ann"})  # as a delayed worker would do
    network.deliver()
    assert [item["id"] for item in network.circles("ann").items] == ["bob"]
    assert [item["id"] for item in network.wall("bob", "ann").items] == [post]
    assert [item["kind"] for item in network.notices("ann").items] == ["circled"]
    assert (network.find("ann"), list(find_problems(social_db))) == ("ann", [])


@pytest.mark.parametrize("way", ["leave", "erase"])
def test_a_member_circled_while_leaving_is_not_counted(
    network: Network, people: People, social_db: Db, way: str
) -> None:
    """The circling transaction began before the member left, and commits after the worker has finished."""
    ann, bob = people("ann", "bob")
    member = social_db["social.users"].find_one({"_id": bob})
    getattr(network, way)(bob)
    network.deliver()
    left = social_db["social.users"].find_one({"_id": bob})
    social_db["social.users"].replace_one({"_id": bob}, member or {}, upsert=True)
    network.circle(ann, bob, "friends")
    social_db["social.users"].delete_one({"_id": bob})
    if left:
        social_db["social.users"].insert_one(left)
    Network(social_db).deliver()
    assert network.get(ann)["circles"] == [{"name": "friends", "count": 1}], (
        "the second pass runs after `settle_seconds` only"
    )
    finish_tasks(network, social_db)
    assert network.get(ann)["circles"] == []


@pytest.mark.parametrize("link", ["javascript:alert(1)", "https://", "/here", "http://[", "https://a b"])
def test_an_unsafe_link_is_refused(network: Network, people: People, link: str) -> None:
    people("ann")
    with pytest.raises(Invalid):
        network.edit_profile("ann", {"link": link})
    with pytest.raises(Invalid):
        network.post("ann", "link", {"url": link}, PUBLIC)


def test_a_members_data_can_be_exported_and_erased(network: Network, people: People, social_db: Db) -> None:
    ann, bob = people("ann", "bob")
    network.circle(ann, bob, "friends")
    network.circle(bob, ann, "friends")
    network.mute(bob, ann)
    hers, his = write_status(network, ann, "hers"), write_status(network, bob, "his")
    network.comment(ann, his, "by ann")
    network.comment(bob, hers, "by bob")
    network.deliver()
    kinds = [one["what"] for one in network.export(ann)]
    assert sorted(set(kinds)) == ["comment", "member", "notice", "person", "post"]
    network.erase(ann)
    with pytest.raises(UnknownUser):
        network.news(ann)
    assert network.get_post(bob, his)["comments"] == []
    finish_tasks(network, social_db)
    remove_outdated_entries(social_db)
    for name in social_db.list_collection_names():
        assert "ann" not in str(list(social_db[name].find({}))), name
    assert network.get_post(bob, his)["comment_count"] == 0
    assert network.get(bob)["circles"] == []
    assert list(find_problems(social_db)) == []


def test_an_export_has_no_secrets_of_other_members(network: Network, people: People) -> None:
    ann, bob, cid, dot = people("ann", "bob", "cid", "dot")
    network.circle(ann, bob, "friends")
    network.circle(cid, ann, "fools")
    secret = write_status(network, ann, "between us", circles=["friends"])
    network.comment(bob, secret, "never tell @cid")
    network.block(dot, cid)
    network.comment(bob, write_status(network, cid), "for cid")
    network.block(cid, bob)
    taken = list(network.export(cid))
    assert [one["_id"]["other"] for one in taken if one["what"] == "person"] == [ann, bob]
    assert "never tell" not in str(taken), "a notice about a comment on a post that cid may not see"
    assert "for cid" not in str(taken), "a comment by a member whom cid has blocked"
    assert "fools" not in str(list(network.export(ann)))


# ---- circles and blocks ----


def test_uncircling_a_reader_hides_posts_at_once(network: Network, people: People) -> None:
    ann, bob = people("ann", "bob")
    network.circle(ann, bob, "friends")
    post = write_status(network, ann, circles=["friends"])
    network.deliver()
    assert ids(network.news(bob)) == [post]
    network.uncircle(ann, bob, "friends")
    assert (network.news(bob).items, network.notices(bob).items) == ([], [])
    with pytest.raises(UnknownPost):
        network.comments(bob, post)
    network.circle(ann, bob, "friends")
    assert network.news(bob).items == [], "news contain posts since the current relation only"
    assert network.get_post(bob, post)["id"] == post


def test_a_block_hides_both_from_each_other_until_it_is_lifted(network: Network, people: People) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    for me, other in ((ann, bob), (bob, ann), (bob, cid), (cid, ann)):
        network.circle(me, other, "friends")
    post, open_post = write_status(network, ann), write_status(network, cid)
    network.comment(ann, open_post, "from ann")
    network.deliver()
    network.block(bob, ann)
    network.block(bob, ann)
    assert ids(network.news(bob)) == [open_post]
    assert network.get_post(bob, open_post)["comments"] == []
    assert network.comments(bob, open_post).items == []
    assert [item["by"]["id"] for item in network.notices(bob).items] == []
    assert [item["id"] for item in network.blocked(bob).items] == [ann]
    for act in (
        lambda: network.circle(ann, bob, "more"),
        lambda: network.post(ann, "status", {"text": "hi"}, PUBLIC, bob),
    ):
        with pytest.raises(UnknownUser) as refused:  # a blocked member must not learn it
            act()
        with pytest.raises(UnknownUser) as missing:
            network.circle(ann, "nobody", "more")
        assert refused.value.message.replace(bob, "nobody") == missing.value.message
    for act in (
        lambda: network.circle(bob, ann, "more"),
        lambda: network.post(bob, "status", {"text": "hi"}, PUBLIC, ann),
    ):
        with pytest.raises(Blocked):
            act()
    network.post(cid, "status", {"text": "to ann"}, PUBLIC, ann)
    assert ids(network.wall(bob, ann)) == []
    with pytest.raises(UnknownUser):
        network.wall(ann, bob)
    network.unblock(bob, ann)
    assert network.get_post(bob, post)["id"] == post
    assert ids(network.news(bob)) == [open_post], "a block has ended the follow"


def test_a_muted_author_is_in_no_news_and_notices_but_can_be_read(network: Network, people: People) -> None:
    ann, bob = people("ann", "bob")
    network.circle(bob, ann, "friends")
    post = write_status(network, ann, "@bob look")
    network.deliver()
    assert network.unseen(bob) == 1
    network.mute(bob, ann)
    assert (network.news(bob).items, network.unseen(bob)) == ([], 0)
    assert ids(network.wall(bob, ann)) == [post]
    network.unmute(bob, ann)
    assert ids(network.news(bob)) == [post]


def test_limits_raise_social_limit(network: Network, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    monkeypatch.setattr(rules, "MAX_CIRCLES", 1)
    monkeypatch.setattr(rules, "MAX_CIRCLED", 1)
    monkeypatch.setattr(rules, "MAX_BLOCKS", 0)
    network.circle(ann, bob, "friends")
    for act in (
        lambda: network.circle(ann, bob, "more"),
        lambda: network.circle(ann, cid, "friends"),
        lambda: network.block(ann, cid),
    ):
        with pytest.raises(SocialLimit):
            act()


@pytest.mark.parametrize("kind", ["posts", "photos", "comments", "circles"])
def test_a_flood_is_bounded(social_db: Db, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    moment = Ticking()()
    network = Network(social_db, clock=lambda: moment)
    for one in ("ann", "bob"):
        network.join(one, user=one)
    post = write_status(network, "bob")
    flood = {
        "posts": lambda number: write_status(network, "ann"),
        "photos": lambda number: network.count_photo("ann"),
        "comments": lambda number: network.comment("ann", post, "more"),
        "circles": lambda number: network.circle("ann", "bob", f"c{number}"),
    }
    monkeypatch.setitem(rules.MAX_PER_MINUTE, kind, 3)
    for number in range(3):
        flood[kind](number)
    with pytest.raises(TooFast) as refused:
        flood[kind](3)
    assert refused.value.details["retry_after_seconds"] == 60
    moment += timedelta(minutes=1)
    flood[kind](3)


def test_concurrent_circles_and_blocks_keep_both_sides_equal(social_db: Db) -> None:
    network = Network(social_db)
    for one in ("ann", "bob"):
        network.join(one, user=one)

    def act(number: int) -> None:
        me, other = ("ann", "bob") if number % 2 else ("bob", "ann")
        for turn in range(4):
            try:
                (network.circle(me, other, f"c{number}") if turn % 2 else network.uncircle(me, other, f"c{number}"))
                (network.block if number == 3 and turn == 2 else network.unblock)(me, other)
            except (Blocked, UnknownUser):
                network.unblock(me, other)

    at_once(4, act)
    assert list(find_problems(social_db)) == []


# ---- posts and comments ----


def test_posts_by_strangers_are_in_incoming_and_not_on_the_own_wall(network: Network, people: People) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    network.circle(ann, bob, "friends")
    own, friend, stranger = (
        write_status(network, ann),
        write_status(network, bob, to=ann),
        write_status(network, cid, to=ann),
    )
    assert ids(network.wall(ann, ann)) == [friend, own]
    assert ids(network.incoming(ann)) == [stranger, friend]
    assert ids(network.wall(bob, ann)) == [stranger, friend, own]
    assert ids(network.wall(None, ann)) == [stranger, friend, own]


def test_a_post_for_all_circles_is_for_nobody_else(network: Network, people: People) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    network.circle(ann, bob, "friends")
    network.circle(cid, ann, "friends")
    post = write_status(network, ann, "@cid is not meant", circles=["*circles*"])
    assert network.get_post(bob, post)["audience"] == "circles"
    for viewer in (cid, None):
        with pytest.raises(UnknownPost):
            network.get_post(viewer, post)
    network.block(cid, bob)
    assert network.get_post(bob, post)["mentions"] == []


def test_only_its_writer_and_the_posts_author_delete_a_comment(network: Network, people: People) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    post = write_status(network, ann)
    mine, other = network.comment(bob, post, "one"), network.comment(bob, post, "two")
    with pytest.raises(UnknownPost):
        network.delete_comment(cid, mine)
    network.delete_comment(bob, mine)
    network.delete_comment(ann, other)
    assert network.get_post(ann, post)["comment_count"] == 0


def test_a_mention_notifies_members_who_may_see_the_post(network: Network, people: People) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    network.circle(ann, bob, "friends")
    write_status(network, ann, "for @bob and @cid, not for x@bob or @nobody", circles=["friends"])
    assert [item["kind"] for item in network.notices(bob).items] == ["mention", "circled"]
    assert network.notices(cid).items == []
    network.uncircle(ann, bob, "friends")
    assert network.notices(bob).items == []


def test_a_notice_about_an_ended_follow_is_not_shown(network: Network, people: People, social_db: Db) -> None:
    ann, bob = people("ann", "bob")
    network.circle(ann, bob, "friends")
    (notice,) = social_db["social.notices"].find()
    network.uncircle(ann, bob, "friends")
    social_db["social.notices"].insert_one(notice)  # as if it had not been deleted
    assert network.notices(bob).items == []


def test_notices_that_cannot_be_shown_are_not_stored(network: Network, people: People, social_db: Db) -> None:
    """Mentions in hidden posts, posts by muted or blocked members, and repeated follows leave no notices."""
    ann, bob, eve = people("ann", "bob", "eve")
    network.circle(eve, ann, "own")
    hidden = write_status(network, eve, "psst @bob", circles=["own"])
    network.comment(eve, hidden, "again, @bob")
    for _ in range(3):
        network.circle(eve, bob, "fans")
        network.uncircle(eve, bob, "fans")
    for hide, undo in ((network.mute, network.unmute), (network.block, network.unblock)):
        hide(bob, eve)
        write_status(network, eve, "hey @bob")
        network.comment(eve, write_status(network, ann), "hey @bob")
        undo(bob, eve)
    assert list(social_db["social.notices"].find({"_id.u": bob})) == []


@pytest.mark.parametrize("how", ["muted", "blocked", "blocked by the author", "uncircled"])
def test_hidden_authors_cannot_push_posts_off_the_news(
    network: Network, people: People, clock: Ticking, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Their posts are still delivered, because a block can be lifted, but skipped when the news are read."""
    monkeypatch.setattr(paging, "MAX_READS", 2)
    ann, bob, eve = people("ann", "bob", "eve")
    network.circle(ann, bob, "friends")
    network.circle(eve, bob, "victims")
    wanted = write_status(network, ann, "before the flood", circles=["friends"])
    for number in range(12):
        write_status(network, eve, f"flood {number}", circles=["victims"])
    network.deliver()
    actions: dict[str, Callable[[], object]] = {
        "muted": lambda: network.mute(bob, eve),
        "blocked": lambda: network.block(bob, eve),
        "blocked by the author": lambda: network.block(eve, bob),
        "uncircled": lambda: network.uncircle(eve, bob, "victims"),
    }
    actions[how]()
    assert [post["id"] for post in network.news(bob, limit=5).items] == [wanted]


def test_hidden_posts_cannot_push_posts_off_a_wall(
    network: Network, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "MAX_READS", 2)
    ann, bob, cid, eve = people("ann", "bob", "cid", "eve")
    network.circle(bob, ann, "friends")
    mine, anns = write_status(network, bob), write_status(network, ann, to=bob)
    network.circle(eve, ann, "few")
    for _ in range(12):
        write_status(network, eve, circles=["few"], to=bob)
    eves = write_status(network, eve, to=bob)

    def first(read: Callable[..., Any], *who: str) -> list[str]:
        return [post["id"] for post in read(*who, limit=5).items]

    assert first(network.wall, bob, bob) == [anns, mine], "posts by strangers are in `incoming`"
    assert first(network.wall, cid, bob) == [eves, anns, mine], "only the limited posts are skipped"
    network.block(bob, eve)
    assert first(network.incoming, bob) == [anns]


def test_hidden_posts_cannot_push_posts_off_the_wall_of_a_visitor(
    network: Network, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "MAX_READS", 2)
    ann, bob = people("ann", "bob")
    network.circle(ann, bob, "few")
    public = write_status(network, ann)
    for _ in range(12):
        write_status(network, ann, circles=["few"])
    assert ids(network.wall(None, ann, limit=5)) == [public]


def test_a_wall_of_hidden_posts_is_read_in_bounded_parts(
    network: Network, people: People, social_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read passes over a bounded number of hidden posts, and the page continues behind them."""
    monkeypatch.setattr(queries, "MAX_PASSED", 300)
    ann, bob, cid = people("ann", "bob", "cid")
    network.circle(ann, cid, "few")
    oldest = write_status(network, ann)
    hidden = network.post(ann, "status", {"text": "hidden"}, ["few"])
    copy = social_db["social.posts"].find_one({"_id": hidden["id"]})
    assert copy
    social_db["social.posts"].insert_many(
        {**copy, "_id": f"{number:04}", "ts": copy["ts"] + timedelta(microseconds=500 * number)}
        for number in range(1, 700)
    )
    newest = write_status(network, bob, to=ann)
    monkeypatch.setattr(paging, "MAX_READS", 2)
    first = network.wall(bob, ann, limit=5)
    assert ids(first) == [newest]
    assert first.next is not None
    found, cursor = ids(first), first.next
    while cursor is not None:
        page = network.wall(bob, ann, cursor=cursor, limit=5)
        found, cursor = found + ids(page), page.next
    assert found == [newest, oldest]


def test_an_addressee_sees_a_limited_post_among_hidden_ones(network: Network, people: People) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    network.circle(ann, cid, "few")
    wanted = write_status(network, ann, circles=["few"], to=bob)
    for _ in range(3):
        write_status(network, ann, circles=["few"])
    assert [post["id"] for post in network.wall(bob, ann, limit=2).items] == [wanted]


def test_blocked_members_cannot_push_comments_and_notices_off_the_page(
    network: Network, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "MAX_READS", 2)
    ann, bob, eve = people("ann", "bob", "eve")
    post = write_status(network, bob)
    network.circle(ann, bob, "friends")
    for _ in range(12):
        network.comment(eve, post, "flood")
    wanted = network.comment(ann, post, "after the flood")
    network.block(bob, eve)
    assert [item["id"] for item in network.comments(bob, post, limit=5).items] == [wanted]
    assert [item["kind"] for item in network.notices(bob, limit=5).items] == ["comment", "circled"]


def test_an_addressee_may_delete_a_post_from_their_wall(network: Network, people: People) -> None:
    ann, bob, eve = people("ann", "bob", "eve")
    post = network.post(eve, "status", {"text": "spam"}, PUBLIC, bob)["id"]
    with pytest.raises(UnknownPost):
        network.delete_post(ann, post)
    network.delete_post(bob, post)
    assert network.wall(None, bob).items == network.wall(eve, eve).items == []


def test_everybody_reads_the_public_posts_of_all_members(
    network: Network, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "MAX_READS", 2)
    ann, bob, eve = people("ann", "bob", "eve")
    network.circle(ann, bob, "friends")
    anns = write_status(network, ann)
    write_status(network, ann, circles=["friends"])
    write_status(network, ann, circles=["*circles*"], to=eve)
    bobs = write_status(network, bob, to=ann)
    eves = [write_status(network, eve) for _ in range(12)]
    assert ids(network.public(None, limit=20)) == [*reversed(eves), bobs, anns]
    first = network.public(None, limit=13)
    assert ids(network.public(None, limit=13, cursor=first.next)) == [anns]
    network.block(bob, eve)
    assert ids(network.public(bob, limit=2)) == [bobs, anns], "an author who is blocked does not fill the page"
    network.leave(ann)
    assert ids(network.public(bob, limit=2)) == [bobs]


def test_notices_are_counted_until_they_are_seen(network: Network, people: People) -> None:
    ann, bob = people("ann", "bob")
    network.circle(bob, ann, "friends")
    comment = network.comment(bob, write_status(network, ann), "nice, @ann")
    assert network.unseen(ann) == 2
    network.see_notices(ann)
    assert (network.unseen(ann), [item["seen"] for item in network.notices(ann).items]) == (0, [True, True])
    network.delete_comment(ann, comment)
    assert [item["kind"] for item in network.notices(ann).items] == ["circled"]


@heavy
@pytest.mark.timeout(300)
def test_fifty_concurrent_comments_are_counted_and_shown_in_every_feed(social_db: Db) -> None:
    network = Network(social_db)
    network.join("Ann", user="ann")
    readers = [f"r{number}" for number in range(1_000 if IN_FULL else 50)]
    for _ in network.load((reader, "ann") for reader in readers):
        pass
    post = write_status(network, "ann")
    network.deliver()
    size = 50 if IN_FULL else 12
    at_once(size, lambda number: network.comment(readers[number], post, f"comment {number}"))
    latest = [item["id"] for item in network.comments("ann", post, limit=100).items][-3:]
    for reader in readers:
        (seen,) = network.news(reader).items
        assert (seen["comment_count"], [comment["id"] for comment in seen["comments"]]) == (size, latest)
    assert list(find_problems(social_db)) == []
    print(f"{size} concurrent comments, equal in {len(readers):,} feeds")


def test_deleting_a_post_deletes_its_comments(network: Network, people: People, social_db: Db) -> None:
    ann, bob = people("ann", "bob")
    network.circle(bob, ann, "friends")
    post = write_status(network, ann)
    network.comment(bob, post, "oh")
    network.deliver()
    with pytest.raises(UnknownPost):
        network.delete_post(bob, post)
    network.delete_post(ann, post)
    assert (network.news(bob).items, network.wall(bob, ann).items) == ([], [])
    assert list(find_problems(social_db)) == [], "a queued task will delete the comments"
    network.deliver()
    remove_outdated_entries(social_db)
    assert [social_db[f"social.{name}"].count_documents({}) for name in ("comments", "news")] == [0, 0]


def test_a_post_is_returned_even_if_its_author_leaves_meanwhile(
    network: Network, people: People, social_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    people("ann")
    committed = in_transaction

    def commit_and_leave(*arguments: Any, **options: Any) -> Any:
        result = committed(*arguments, **options)
        monkeypatch.undo()
        Network(social_db).leave("ann")
        return result

    monkeypatch.setattr("squinney.transactions.runner.in_transaction", commit_and_leave)
    made = write_status(network, "ann", "and out")
    assert social_db["social.posts"].count_documents({"_id": made}) == 1


def test_a_post_with_a_key_is_written_once(network: Network, people: People) -> None:
    people("ann")
    made = [network.post("ann", "status", {"text": "hi"}, PUBLIC, key="k")["id"] for _ in range(2)]
    assert made[0] == made[1]
    assert len(network.wall("ann", "ann").items) == 1


@pytest.mark.parametrize(
    ("kind", "detail", "circles"),
    [
        ("status", {"text": "x" * 5_001}, PUBLIC),
        ("status", {"text": " "}, PUBLIC),
        ("status", {"text": "x", "$set": 1}, PUBLIC),
        ("status", "x", PUBLIC),
        ("sonnet", {"text": "x"}, PUBLIC),
        ("link", {"text": "x"}, PUBLIC),
        ("status", {"text": "x"}, []),
        ("status", {"text": "x"}, "*public*"),
        ("status", {"text": "x"}, None),
        ("status", {"text": "x"}, [{"$gt": ""}]),
        ("status", {"text": "x"}, ["*public*", "friends"]),
        ("status", {"text": "x"}, ["friends"]),
    ],
)
def test_a_post_that_breaks_a_rule_is_refused(
    network: Network, people: People, kind: str, detail: object, circles: object
) -> None:
    people("ann")
    with pytest.raises(Invalid) as refused:
        network.post("ann", kind, detail, circles)  # type: ignore[arg-type]
    assert refused.value.details["field"].split(".")[0] in ("detail", "type", "circles")


@pytest.mark.parametrize("cursor", ["x", "", "AAAA", 7, "x" * 20_000])
def test_an_invalid_social_cursor_is_refused(network: Network, people: People, cursor: str) -> None:
    people("ann")
    for read in (network.news, network.incoming, network.notices, network.circles):
        with pytest.raises(Invalid):
            read("ann", cursor=cursor)


# ---- costs ----


def test_a_first_screen_is_two_round_trips(network: Network, people: People, social_db: Db, mongod: Embedded) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    for other in (ann, cid):
        network.circle(bob, other, "friends")
    for number in range(12):
        post = write_status(network, (ann, cid)[number % 2], to=bob)
        network.comment(bob, post, "yes")
    network.deliver()
    with watched(mongod.uri, social_db.name) as (db, commands):
        reader = Network(db)
        for read in (
            lambda: reader.news(bob, limit=10),
            lambda: reader.wall(bob, ann, limit=10),
            lambda: reader.incoming(bob, limit=10),
            lambda: reader.notices(bob, limit=10),
        ):
            commands.sent.clear()
            assert len(read().items) >= 1
            assert len(commands.names) == 2, commands.names


# ---- repair ----


def _corrupt(db: Db, what: str) -> str:
    """Corrupt the data, and return the code of the problem that must be found."""
    first, second = {"owner": "ann", "other": "bob"}, {"owner": "bob", "other": "ann"}
    if what == "first side missing":
        db["social.edges"].delete_one({"_id": first})
        db["social.users"].update_one({"_id": "ann"}, {"$set": {"circles": [], "circled": 0}})
        return "one-sided-edge"
    if what == "second side missing":
        db["social.edges"].delete_one({"_id": second})
        return "one-sided-edge"
    if what == "sides differ":
        db["social.edges"].update_one({"_id": second}, {"$set": {"in_circles.0.name": "foes"}})
        return "one-sided-edge"
    if what == "count":
        db["social.users"].update_one({"_id": "eve"}, {"$set": {"circled": 7}})  # in the last range
        return "wrong-circle-count"
    if what == "comments":
        db["social.posts"].update_one({"by": "ann"}, {"$set": {"comments": [], "comment_count": 5}})
        return "wrong-comments"
    db["social.posts"].delete_one({"by": "ann"})
    return "lost-comment"


@pytest.mark.parametrize(
    "what", ["first side missing", "second side missing", "sides differ", "count", "comments", "post missing"]
)
def test_inconsistent_social_data_is_found_and_repaired(
    network: Network, people: People, social_db: Db, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(problem_queries, "AT_ONCE", 2)  # so that there are several ranges
    ann, bob, *others = people("ann", "bob", "cid", "dan", "eve")
    network.circle(ann, bob, "friends")
    network.comment(bob, write_status(network, ann), "oh")
    for other in others:
        network.circle(other, bob, "friends")
        network.comment(bob, write_status(network, other), "oh")
    assert list(find_problems(social_db)) == []
    code = _corrupt(social_db, what)
    assert [problem.code for problem in find_problems(social_db)] == [code]
    assert sum(repair(social_db).values()) >= 1
    assert list(find_problems(social_db)) == []
