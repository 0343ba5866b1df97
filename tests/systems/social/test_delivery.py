"""The worker: no delivery is lost, duplicated or delayed, and merged posts look like delivered ones."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import bson
import pytest
from pymongo.errors import BulkWriteError
from tests.racing import at_once
from tests.sizes import IN_FULL, heavy
from tests.systems.social.conftest import Ticking

from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.social import Network, find_problems
from squinney.social.jobs import remove_outdated_entries
from squinney.social.news import delivery
from squinney.social.rules import MAX_OLDER_POSTS
from squinney.testing.server_commands import watched

PUBLIC = ["*public*"]


def crowd(network: Network, size: int) -> list[str]:
    """Create `ann` and this many followers of `ann`, and return the followers."""
    network.join("Ann", user="ann")
    readers = [f"r{number:06}" for number in range(size)]
    for _ in network.load((reader, "ann") for reader in readers):
        pass
    return readers


def write_status(network: Network, me: str, circles: list[str] = PUBLIC) -> str:
    return network.post(me, "status", {"text": "hello"}, circles)["id"]


@heavy
@pytest.mark.timeout(900)
def test_killed_workers_lose_and_duplicate_nothing(social_db: Db, mongod: Embedded) -> None:
    """Two workers run at once and are ended by SIGKILL, several times."""
    size, batch, kills = (100_000, 2_000, 10) if IN_FULL else (1_000, 50, 1)
    began = time.monotonic()
    readers = crowd(Network(social_db), size)
    Network(social_db).deliver()  # the new followers catch up: only the post's own delivery brings it to them
    post = write_status(Network(social_db), "ann")
    news = social_db["social.news"]
    for turn in range(1, kills + 1):
        enough = size * (turn + 1) // (kills + 2)
        workers = [_worker(mongod, social_db, batch, enough) for _ in range(2)]
        try:
            while news.estimated_document_count() < size * turn // (kills + 2):
                assert None in [worker.poll() for worker in workers], "the workers ended by themselves"
                time.sleep(0.01)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    assert social_db["squinney.tasks"].count_documents({"body.do": "deliver"})
    assert 0 < news.count_documents({}) < size, "the workers were killed in the middle of the delivery"
    until = time.monotonic() + 600
    while social_db["squinney.tasks"].count_documents({"body.do": "deliver"}) and time.monotonic() < until:
        at_once(2, lambda _: Network(social_db, visibility_seconds=1).deliver())
    entries = [entry["_id"] for entry in news.find()]
    assert sorted(entry["u"] for entry in entries) == readers
    assert {entry["p"] for entry in entries} == {post}
    print(f"{size:,} deliveries, {2 * kills} workers killed, {time.monotonic() - began:.0f} s")


WORKER = """
import sys, time
from pymongo import MongoClient
from squinney.social import Network
from squinney.social.news import delivery

db = MongoClient(sys.argv[1])[sys.argv[2]]
delivery.BATCH, enough = int(sys.argv[3]), int(sys.argv[4])
insert = delivery.insert_entries

def insert_until_enough(db, chunks):
    while db["social.news"].estimated_document_count() >= enough:
        time.sleep(0.1)
    insert(db, chunks)

delivery.insert_entries = insert_until_enough
network = Network(db, visibility_seconds=1)
while True:
    network.deliver()
"""


def _worker(mongod: Embedded, db: Db, batch: int, enough: int) -> subprocess.Popen[bytes]:
    """Start a process that delivers without end, but waits before it delivers more than `enough` entries."""
    return subprocess.Popen([sys.executable, "-c", WORKER, mongod.uri, db.name, str(batch), str(enough)])


def test_a_repeated_delivery_inserts_nothing_twice(social_db: Db) -> None:
    network = Network(social_db)
    crowd(network, 3)
    post = write_status(network, "ann")
    network.deliver()
    social_db["social.news"].delete_one({})
    network._queue.put({"do": "deliver", "post": post})
    assert network.deliver() == {"done": 1}
    assert social_db["social.news"].count_documents({}) == 3


def test_a_delivery_that_too_few_members_confirm_is_not_done(own_db: Db, failing: Any) -> None:
    """Also if another worker has inserted some of its entries before."""
    entry = {"_id": "one"}
    own_db["social.news"].insert_one(entry)
    unconfirmed = {"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "waiting for replication timed out"}
    with failing(["insert"], writeConcernError=unconfirmed), pytest.raises(BulkWriteError):
        delivery.insert_new(own_db, [entry, {"_id": "two"}])
    delivery.insert_new(own_db, [entry, {"_id": "two"}])
    assert own_db["social.news"].count_documents({}) == 2


def test_a_large_delivery_does_not_delay_small_ones(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    readers = crowd(network, 40)
    network.join("Bob", user="bob")
    network.circle(readers[0], "bob", "friends")
    big, small = write_status(network, "ann"), write_status(network, "bob")
    inserts: list[set[str]] = []

    def recording(db: Db, entries: Any, real: Any = delivery.insert_new) -> None:
        inserts.append({entry["_id"]["p"] for entry in entries})
        real(db, entries)

    with patch.object(delivery, "BATCH", 10), patch.object(delivery, "insert_new", recording):
        network.deliver()
    assert small in set().union(*inserts[:2]), "after the first chunk of the large post, or together with it"
    assert sum(big in posts for posts in inserts) >= 4


def test_many_posts_are_delivered_with_one_insert_and_one_aggregate(social_db: Db, mongod: Embedded) -> None:
    network = Network(social_db, clock=Ticking())
    list(network.load([(f"r{number}", f"a{number % 4}") for number in range(12)]))
    network.deliver()
    posts = {author: write_status(network, author) for author in ("a0", "a1", "a2", "a3", "r0")}
    with watched(mongod.uri, social_db.name) as (db, commands):
        assert Network(db).deliver() == {"done": 5}
        assert [commands.names.count(name) for name in ("insert", "aggregate")] == [1, 1]
    for number in range(12):
        assert [item["id"] for item in network.news(f"r{number}").items] == [posts[f"a{number % 4}"]]


AUDIENCES = {"public": (PUBLIC, "bob"), "circles": (["*circles*"], "ann"), "named": (["friends"], "ann")}


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("way", ["circle", "load", "another circle"])
def test_a_post_in_the_millisecond_of_a_follow_reaches_the_new_follower(social_db: Db, audience: str, way: str) -> None:
    """The post is delivered before the follow is stored. The rule, `news` and another worker agree on it."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    network = Network(social_db, clock=lambda: moment)
    for member in ("ann", "bob", "cid"):
        network.join(member, user=member)
    network.circle("ann", "cid", "friends")
    if way == "another circle":
        network.circle("ann", "bob", "work")
    circles, author = AUDIENCES[audience]
    post = write_status(network, author, circles)
    network.deliver()
    if way == "load":
        assert list(network.load([("ann", "bob")], circle="friends"))
    else:
        network.circle("ann", "bob", "friends")
    network.deliver()
    reader = "ann" if author == "bob" else "bob"
    assert [item["id"] for item in network.news(reader).items] == [post]
    assert network.news(author).items == []


def test_an_import_brings_no_earlier_and_no_hidden_posts(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    for member in ("ann", "bob", "cid"):
        network.join(member, user=member)
    network.circle("ann", "cid", "friends")
    network.circle("bob", "cid", "friends")
    write_status(network, "bob")
    assert list(network.load([("ann", "bob")], circle="work"))
    write_status(network, "bob", ["friends"])
    write_status(network, "ann", ["friends"])
    network.deliver()
    assert social_db["social.news"].count_documents({"_id.u": {"$in": ["ann", "bob"]}}) == 0


@pytest.mark.parametrize("merge_above", [0, 100])
def test_a_follow_brings_the_last_posts_that_one_may_see(social_db: Db, merge_above: int) -> None:
    """Also of an author whose posts are merged on reading."""
    network = Network(social_db, clock=Ticking(), merge_above=merge_above, settle_seconds=0)
    for member in ("ann", "bob", "cid"):
        network.join(member, user=member)
    network.circle("cid", "bob", "following")
    network.circle("bob", "cid", "friends")
    write_status(network, "bob")
    network.deliver()
    written = []
    for number in range(MAX_OLDER_POSTS + 1):
        written.append(write_status(network, "bob"))
        if number % 7 == 0:
            write_status(network, "bob", ["friends"])
            network.deliver()
    network.circle("ann", "bob", "work")
    network.deliver()
    later = write_status(network, "bob")
    network.deliver()
    older = [*reversed(written)][:MAX_OLDER_POSTS]
    assert [item["id"] for item in network.news("ann", limit=100).items] == [later, *older]
    assert network.news("bob").items == []
    remove_outdated_entries(social_db)
    assert [item["id"] for item in network.news("ann", limit=100).items] == [later, *older]
    network.uncircle("ann", "bob", "work")
    assert network.news("ann").items == []
    remove_outdated_entries(social_db)
    assert social_db["social.news"].count_documents({"_id.u": "ann"}) == 0


def test_a_post_that_an_ended_follow_brought_is_no_news(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    for member in ("ann", "bob"):
        network.join(member, user=member)
    first = write_status(network, "bob")
    network.circle("ann", "bob", "work")
    network.deliver()
    assert [item["id"] for item in network.news("ann").items] == [first]
    network.uncircle("ann", "bob", "work")
    newer = [write_status(network, "bob") for _ in range(MAX_OLDER_POSTS)]
    network.circle("ann", "bob", "work")
    network.deliver()
    assert [item["id"] for item in network.news("ann", limit=100).items] == [*reversed(newer)]


def test_the_task_of_an_ended_follow_changes_nothing(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    for member in ("ann", "bob"):
        network.join(member, user=member)
    network.circle("bob", "ann", "friends")
    posts = [write_status(network, "bob", circles) for circles in (["*public*"], ["friends"])]
    network.circle("ann", "bob", "work")
    (first,) = network._queue.take_some(1)
    network.uncircle("ann", "bob", "work")
    network.circle("ann", "bob", "work")
    network.deliver()
    delivery.catch_up(social_db, first["body"]["pairs"], first["body"]["since"], first["body"]["older"])
    assert [item["id"] for item in network.news("ann").items] == [*reversed(posts)]
    network.uncircle("bob", "ann", "friends")
    assert [item["id"] for item in network.news("ann").items] == posts[:1]


def test_what_was_undone_meanwhile_brings_nothing(social_db: Db) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    network = Network(social_db, clock=lambda: moment)
    for member in ("ann", "bob"):
        network.join(member, user=member)
    write_status(network, "bob")
    network.deliver()
    network.circle("ann", "bob", "friends")
    network.circle("bob", "ann", "friends")  # so that the two still have a relation
    network.uncircle("ann", "bob", "friends")
    assert "failed" not in network.deliver()
    assert social_db["social.news"].count_documents({}) == 0


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8, 100])
def test_posts_of_every_audience_reach_the_right_readers(social_db: Db, batch: int) -> None:
    """Authors have more or fewer readers than a batch, and some readers follow them after the post."""
    network = Network(social_db, clock=Ticking())
    for one in ("a", "b", "c", "d", *(f"r{number}" for number in range(6))):
        network.join(one, user=one)
    for number in range(6):
        for author in "abc"[: 1 + number // 2]:
            network.circle(f"r{number}", author, "following")
            network.circle(author, f"r{number}", "even" if number % 2 == 0 else "odd")
    audiences = (["*public*"], ["*circles*"], ["even"], ["even", "odd"])
    posts = {write_status(network, author, circles): (author, circles) for author in "ac" for circles in audiences}
    posts |= {write_status(network, author): (author, ["*public*"]) for author in "bd"}
    network.join("late", user="late")
    assert list(network.load([("late", "a")]))
    with patch.object(delivery, "BATCH", batch):
        network.deliver()
    found = {(one["_id"]["u"], one["_id"]["p"]) for one in social_db["social.news"].find()}
    readers = {"a": range(6), "b": range(2, 6), "c": range(4, 6), "d": range(0)}
    assert found == {
        (f"r{number}", post)
        for post, (author, circles) in posts.items()
        for number in readers[author]
        if circles != ["even"] or number % 2 == 0
    }


def test_a_post_that_cannot_be_delivered_does_not_delay_others(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    readers = crowd(network, 2)
    network.join("Bob", user="bob")
    network.circle(readers[0], "bob", "friends")
    network.deliver()
    broken, post = write_status(network, "bob"), write_status(network, "ann")
    social_db["social.posts"].update_one({"_id": broken}, {"$unset": {"circles": 1}})
    assert network.deliver() == {"failed": 1, "done": 1}
    assert [one["_id"]["p"] for one in social_db["social.news"].find()] == [post, post]


def test_merged_posts_appear_in_news_like_delivered_ones(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking(), merge_above=2, settle_seconds=0)
    readers = crowd(network, 4)
    network.join("Bob", user="bob")
    network.circle(readers[0], "bob", "friends")
    first = write_status(network, "ann")
    network.deliver()
    before = social_db["social.news"].count_documents({})
    between, merged = write_status(network, "bob"), write_status(network, "ann")
    network.deliver()
    assert social_db["social.news"].count_documents({}) == before + 1, "only the post by bob was delivered"
    assert [item["id"] for item in network.news(readers[0], limit=2).items] == [merged, between]
    page = network.news(readers[0], limit=2)
    assert [item["id"] for item in network.news(readers[0], limit=2, cursor=page.next).items] == [first]
    late = network.join("Late")["id"]
    network.circle(late, "ann", "friends")
    assert network.news(late).items == [], "the posts are older than the follow"
    newest = write_status(network, "ann")
    assert [item["id"] for item in network.news(late).items] == [newest]
    network.uncircle(late, "ann", "friends")
    assert network.news(late).items == []
    network.delete_post("ann", newest)
    assert [item["id"] for item in network.news(readers[0]).items] == [merged, between, first]


def test_an_imported_follower_of_a_merged_author_sees_their_posts(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking(), merge_above=2, settle_seconds=0)
    crowd(network, 3)
    write_status(network, "ann")
    network.deliver()
    list(network.load([("late", "ann")]))
    merged = write_status(network, "ann")
    assert [item["id"] for item in network.news("late").items] == [merged]


def test_ids_that_would_have_the_same_handle_are_loaded(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    network.join("M a b", user="m")
    assert list(network.load([("a.b", "A-b"), ("名", "前")])) == [2]
    assert list(network.load([("a_b", "m")])) == [1]
    for one in ("a.b", "A-b", "a_b", "名", "前", "m"):
        assert network.find(network.get(one)["handle"]) == one


def test_news_with_many_long_merged_posts_can_be_read(social_db: Db) -> None:
    """All newest posts of these authors together would not fit into one document."""
    network = Network(social_db, clock=Ticking())
    authors = [f"a{number}" for number in range(40)]
    list(network.load([("reader", author) for author in authors]))
    social_db["social.users"].update_one({"_id": "reader"}, {"$set": {"merged": authors}})
    first = network.post("a0", "status", {"text": "🦊" * 5_000}, PUBLIC)["id"]
    post = social_db["social.posts"].find_one({"_id": first}) or {}
    copies = [
        {**post, "_id": f"{number:03}-{author}", "by": author, "merged": True}
        for author in authors
        for number in range(21)
    ]
    social_db["social.posts"].insert_many(copies)
    latest = sorted((copy["_id"] for copy in copies), reverse=True)
    page = network.news("reader")
    assert [item["id"] for item in page.items] == latest[:20]
    assert [item["id"] for item in network.news("reader", cursor=page.next).items] == latest[20:40]


def test_news_stay_in_order_across_midnight_and_the_end_of_a_year(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    (reader,) = crowd(network, 1)
    posts = [write_status(network, "ann") for _ in range(25)]
    network.deliver()
    seen, cursor = [], None
    while True:
        page = network.news(reader, cursor=cursor, limit=4)
        seen += [item["id"] for item in page.items]
        if (cursor := page.next) is None:
            break
    assert seen == posts[::-1]
    assert {one["_id"]["t"].year for one in social_db["social.news"].find()} == {2026, 2027}


def test_the_sweep_removes_only_entries_that_can_never_be_shown(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    one, two, three = crowd(network, 3)
    gone, kept = write_status(network, "ann"), write_status(network, "ann")
    network.deliver()
    network.delete_post("ann", gone)
    network.uncircle(one, "ann", "following")
    network.block(two, "ann")
    assert remove_outdated_entries(social_db)["news"] == 5
    assert [[post["id"] for post in network.news(reader).items] for reader in (one, two, three)] == [[], [], [kept]]


def test_no_document_comes_near_a_megabyte(social_db: Db) -> None:
    """A member who has reached every limit at once."""
    network = Network(social_db)
    network.join("Ann", user="ann")
    many = [f"{number:026}" for number in range(5_000)]
    circles = [{"name": "c" * 47 + f"{number:03}", "count": 5_000} for number in range(100)]
    full = {"muted": many[:1_000], "merged": many, "circles": circles}
    social_db["social.users"].update_one({"_id": "ann"}, {"$set": full})
    assert len(bson.encode(social_db["social.users"].find_one({"_id": "ann"}) or {})) < 300_000
    assert network.news("ann").items == []


def test_loading_a_graph_again_changes_nothing(social_db: Db) -> None:
    network = Network(social_db)
    pairs = [("1", "2"), ("2", "1"), ("1", "3"), ("1", "2"), ("3", "3")]
    assert sum(network.load(pairs)) == 3
    assert sum(network.load(pairs)) == 0
    assert {item["id"] for item in network.followers("1").items} == {"2"}
    assert network.get("1")["circles"] == [{"name": "following", "count": 2}]
    assert list(find_problems(social_db)) == []
