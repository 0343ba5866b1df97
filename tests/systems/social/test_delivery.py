"""The worker: nothing lost, nothing doubled, nobody kept waiting, and both ways of delivery alike."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from unittest.mock import patch

import bson
import pytest
from tests.racing import at_once
from tests.sizes import IN_FULL, heavy
from tests.systems.social.conftest import Ticking

from squinney.mongo.schema import Db
from squinney.social import Network, find_problems
from squinney.social.jobs import sweep_entries
from squinney.social.tasks import delivery

PUBLIC = ["*public*"]
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def crowd(network: Network, size: int) -> list[str]:
    """So many readers, who all follow `ann`."""
    network.join("Ann", user="ann")
    readers = [f"r{number:06}" for number in range(size)]
    for _ in network.load((reader, "ann") for reader in readers):
        pass
    return readers


def says(network: Network, me: str, circles: list[str] = PUBLIC) -> str:
    return network.post(me, "status", {"text": "hello"}, circles)["id"]


class Killed(BaseException):
    """As a process ends that is killed: nothing catches it."""


@heavy
@pytest.mark.timeout(600)
def test_a_worker_that_dies_in_the_middle_loses_and_doubles_nothing(social_db: Db) -> None:
    network = Network(social_db)
    readers = crowd(network, 100_000 if IN_FULL else 2_000)
    post = says(network, "ann")
    inserts = threading.local()

    def dying(db: Db, collection: str, documents: object, real: object = delivery.insert_new) -> None:
        inserts.count = getattr(inserts, "count", 0) + 1
        real(db, collection, documents)  # type: ignore[operator]
        if inserts.count % 3 == 0:
            raise Killed

    with patch.object(delivery, "BATCH", 200), patch.object(delivery, "BATCHES_A_TURN", 2):
        with patch.object(delivery, "insert_new", dying):
            for _ in range(3):
                with pytest.raises(Killed):
                    Network(social_db).deliver()
                social_db["tasks"].update_many({}, {"$set": {"due_at": LONG_AGO}})
        at_once(2, lambda _: Network(social_db, visibility_seconds=0.5).deliver())
    entries = [entry["_id"] for entry in social_db["social.news"].find()]
    assert sorted(entry["u"] for entry in entries) == readers
    assert {entry["p"] for entry in entries} == {post}
    assert social_db["tasks"].count_documents({}) == 0


def test_a_large_delivery_takes_turns_with_small_ones(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    readers = crowd(network, 40)
    network.join("Bob", user="bob")
    network.circle(readers[0], "bob", "friends")
    big, small = says(network, "ann"), says(network, "bob")
    order: list[str] = []

    def noting(db: Db, collection: str, documents: object, real: object = delivery.insert_new) -> None:
        entries = list(documents)  # type: ignore[call-overload]
        order.extend({entry["_id"]["p"] for entry in entries})
        real(db, collection, entries)  # type: ignore[operator]

    with (
        patch.object(delivery, "BATCH", 5),
        patch.object(delivery, "BATCHES_A_TURN", 2),
        patch.object(delivery, "insert_new", noting),
    ):
        network.deliver()
    assert order.index(small) == 2, "after one turn of the large one"
    assert order.count(big) == 8


def test_merged_posts_come_like_delivered_ones(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking(), merge_above=2, settle_seconds=0)
    readers = crowd(network, 4)
    network.join("Bob", user="bob")
    network.circle(readers[0], "bob", "friends")
    first = says(network, "ann")
    network.deliver()
    before = social_db["social.news"].count_documents({})
    between, merged = says(network, "bob"), says(network, "ann")
    network.deliver()
    assert social_db["social.news"].count_documents({}) == before + 1, "only bob's was delivered"
    assert [one["id"] for one in network.news(readers[0], limit=2).items] == [merged, between]
    page = network.news(readers[0], limit=2)
    assert [one["id"] for one in network.news(readers[0], limit=2, cursor=page.next).items] == [first]
    late = network.join("Late")["id"]
    network.circle(late, "ann", "friends")
    assert network.news(late).items == [], "made before they followed"
    newest = says(network, "ann")
    assert [one["id"] for one in network.news(late).items] == [newest]
    network.uncircle(late, "ann", "friends")
    assert network.news(late).items == []
    network.delete_post("ann", newest)
    assert [one["id"] for one in network.news(readers[0]).items] == [merged, between, first]


def test_news_stay_in_order_across_midnight_and_the_end_of_a_year(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    (reader,) = crowd(network, 1)
    posts = [says(network, "ann") for _ in range(25)]
    network.deliver()
    seen, cursor = [], None
    while True:
        page = network.news(reader, cursor=cursor, limit=4)
        seen += [one["id"] for one in page.items]
        if (cursor := page.next) is None:
            break
    assert seen == posts[::-1]
    assert {one["_id"]["t"].year for one in social_db["social.news"].find()} == {2026, 2027}


def test_the_sweep_removes_what_nobody_can_see_and_nothing_else(social_db: Db) -> None:
    network = Network(social_db, clock=Ticking())
    one, two, three = crowd(network, 3)
    gone, kept = says(network, "ann"), says(network, "ann")
    network.deliver()
    network.delete_post("ann", gone)
    network.uncircle(one, "ann", "following")
    network.block(two, "ann")
    assert sweep_entries(social_db)["news"] == 4
    network.unblock(two, "ann")
    assert [[post["id"] for post in network.news(reader).items] for reader in (one, two, three)] == [[], [kept], [kept]]


def test_no_document_comes_near_a_megabyte(social_db: Db) -> None:
    """A member with everything that he may have at once."""
    network = Network(social_db)
    network.join("Ann", user="ann")
    many = [f"{number:026}" for number in range(5_000)]
    circles = [{"name": "c" * 47 + f"{number:03}", "count": 5_000} for number in range(100)]
    full = {"muted": many[:1_000], "merged": many, "circles": circles}
    social_db["social.users"].update_one({"_id": "ann"}, {"$set": full})
    assert len(bson.encode(social_db["social.users"].find_one({"_id": "ann"}) or {})) < 300_000
    assert network.news("ann").items == []


def test_a_graph_is_loaded_once_and_both_ways(social_db: Db) -> None:
    network = Network(social_db)
    pairs = [("1", "2"), ("2", "1"), ("1", "3"), ("1", "2"), ("3", "3")]
    assert sum(network.load(pairs)) == 3
    assert sum(network.load(pairs)) == 0
    assert {one["id"] for one in network.followers("1").items} == {"2"}
    assert network.get("1")["circles"] == [{"name": "following", "count": 2}]
    assert list(find_problems(social_db)) == []
