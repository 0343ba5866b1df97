"""Measures how much one account that everyone follows slows down the posts of other members."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

from bench._social_data import START, add_star, batches, fresh
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db
from squinney.social import Network
from squinney.social.members.accounts import new_member

OTHERS = 20


def next_to_the_largest(connection: Connection, followers: int) -> list[list[str]]:
    """Measure small authors' posts: without other posts, during the large delivery, and after merging has begun."""
    db = fresh(connection)
    readers = [f"u{number:07}" for number in range(followers)]
    for some in batches(readers):
        db["social.users"].insert_many([new_member(name, name, name, START) for name in some], ordered=False)
    add_star(db, "star", readers)
    network = Network(db, settle_seconds=0)
    list(network.load([("reader", f"small{number}") for number in range(OTHERS)]))
    rows = [_small_posts("no other posts", network, None)]
    began = time.perf_counter()
    rows.append(_small_posts(f"during the delivery to {followers:,}", network, lambda: _says(network, "star")))
    while db["social.news"].estimated_document_count() < followers:
        network._worker.work()
    seconds = time.perf_counter() - began
    rows.append(["duration of that delivery", f"{seconds:,.0f} s", f"{followers / seconds:,.0f} per second"])
    network.deliver()  # the account is above the threshold: from now on its posts are merged
    rows.append(_small_posts(f"after merging has begun for {followers:,}", network, lambda: _says(network, "star")))
    largest = max(_largest(db, name) for name in ("users", "edges", "posts", "news"))
    assert largest < 1_000_000, f"a document has {largest:,} bytes"
    assert db["social.news"].count_documents({"b": "star"}) == followers, "a delivery is missing or duplicated"
    connection.client.drop_database(db.name)
    return [*rows, ["largest document", f"{largest:,} bytes", ""]]


def _small_posts(what: str, network: Network, first: Callable[[], object] | None) -> list[str]:
    """Measure the median and longest milliseconds from `post` until its one reader sees it, while a worker runs."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            if not network._worker.work():
                time.sleep(0.01)

    if first is not None:
        first()
    worker = threading.Thread(target=work)
    worker.start()
    try:
        waits = sorted(_until_seen(network, f"small{number}") for number in range(OTHERS))
    finally:
        stop.set()
        worker.join()
    return [what, f"{statistics.median(waits):,.0f} ms", f"{waits[-1]:,.0f} ms"]


def _until_seen(network: Network, author: str) -> float:
    began = time.perf_counter()
    made = _says(network, author)
    while all(post["id"] != made for post in network.news("reader", limit=5).items):
        time.sleep(0.002)
    return (time.perf_counter() - began) * 1000


def _says(network: Network, author: str) -> str:
    return network.post(author, "status", {"text": "hello"}, ["*public*"])["id"]


def _largest(db: Db, name: str) -> int:
    sizes = [{"$group": {"_id": None, "most": {"$max": {"$bsonSize": "$$ROOT"}}}}]
    return int(next(db[f"social.{name}"].aggregate(sizes), {"most": 0})["most"])
