"""Deliveries and first screens on a real graph, beside raw reads and writes, the book's pages and PostgreSQL."""

from __future__ import annotations

import gzip
import os
import random
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from pymongo import UpdateOne

from bench import report
from bench.harness import Contender, Series, compare
from bench.postgres import private_postgres
from squinney import assembly, social
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.social import Network, graph, loading, queries
from squinney.social.documents import CLUSTERED
from squinney.social.graph import put_in
from squinney.social.members import new_member

T = TypeVar("T")

NAME = "wiki-vote.txt.gz"
BATCH = 1_000
SCREEN = 20
DELIVERIES = int(os.environ.get("SQUINNEY_BENCH_DELIVERIES", "1000000"))
LARGEST = int(os.environ.get("SQUINNEY_BENCH_FOLLOWERS", "1000000"))
GROWTH = [(1_000, 10_000), (10_000, 100_000), (100_000, 1_000_000)]  # people, deliveries
RING = range(1, 6)
OTHERS = 20
START = datetime(2026, 1, 1, tzinfo=UTC)


def run(connection: Connection, *, rounds: int = 9, seconds: float = 2.0) -> None:
    """Measure, and write the page."""
    db = _fresh(connection)
    pairs = list(_graph())
    network = Network(db, clock=lambda: START, merge_above=10**9)
    began = time.perf_counter()
    for _ in network.load(pairs):
        pass
    loaded = len(pairs) / (time.perf_counter() - began)
    followers: dict[str, list[str]] = defaultdict(list)
    for me, other in pairs:
        followers[other].append(me)
    db.create_collection("raw.news", **CLUSTERED)
    author = min(followers, key=lambda one: abs(len(followers[one]) - 400))
    everybody = [one["_id"] for one in db["social.users"].find({}, {"_id": 1})]
    numbers = iter(range(10**9))
    receiving = [(author, sorted(followers[author])), ("star", _star(db, "star", everybody))]
    delivered = [
        (len(readers), compare(_delivering(db, name, readers, numbers), threads=1, rounds=rounds, seconds=seconds))
        for name, readers in receiving
    ]
    _empty(db)
    posts = _fill(db, followers)
    with ExitStack() as stack:
        screens = compare(_reading(db, network, pairs, posts, stack), threads=1, rounds=rounds, seconds=seconds)
    figures = {"users": db["social.users"].estimated_document_count(), "edges": len(pairs), "loaded": loaded}
    sizes = {name: _bytes_each(db, name) for name in ("social.news", "book.pages")}
    visible = _post_to_visible(network, db, followers)
    connection.client.drop_database(db.name)
    grown = [_screens_among(connection, people, deliveries) for people, deliveries in GROWTH]
    beside = _beside_the_largest(connection)
    version = connection.client.admin.command("buildInfo")["version"]
    _write(delivered, screens, figures, sizes, visible, grown, beside, version, rounds, seconds)


def _graph() -> Iterator[tuple[str, str]]:
    given = os.environ.get("SQUINNEY_TEST_DATA")
    places = [Path(given)] if given else [up / "shared" / "data" for up in Path(__file__).resolve().parents]
    found = next((place / NAME for place in places if (place / NAME).exists()), None)
    if found is None:
        raise SystemExit(f"the sample graph is not here: set SQUINNEY_TEST_DATA to the folder with {NAME}")
    with gzip.open(found, "rt") as lines:
        for number, line in enumerate(lines, 1):
            if pair := loading.parsed(line, number):
                yield pair


def _post(number: int, author: str) -> Document:
    return {
        "_id": f"{number:026}",
        "by": author,
        "to": None,
        "circles": ["*public*"],
        "type": "status",
        "ts": START + timedelta(seconds=number + 1),
        "detail": {"text": "About as much as people write when they have something to say, and no more. " * 2},
        "mentions": [],
        "merged": False,
        "comments": [],
        "comment_count": 0,
    }


# ---- delivering ----


def _delivering(db: Db, author: str, readers: list[str], numbers: Iterator[int]) -> list[Contender]:
    """One operation is a post to everybody who follows somebody."""
    network = Network(db, merge_above=10**9)

    def by_delivery(_: int) -> None:
        post = _post(next(numbers), author)
        db["social.posts"].insert_one(post)
        network._queue.put({"do": "deliver", "post": post["_id"]})
        network.deliver()

    def by_worker(_: int) -> None:
        post = _post(next(numbers), author)
        db["social.posts"].insert_one(post)
        network._queue.put({"do": "deliver", "post": post["_id"]})
        network.deliver()

    def raw(_: int) -> None:
        post = _post(next(numbers), author)
        db["social.posts"].insert_one(post)
        db["raw.news"].insert_many(_entries(post, readers), ordered=False)

    def pages(_: int) -> None:
        post = _post(next(numbers), author)
        db["book.pages"].bulk_write([_on_page(one, post) for one in readers], ordered=False)

    return [
        Contender("raw insert_many", raw),
        Contender("the worker's delivery", by_delivery),
        Contender("the same, with its task put, taken and ended", by_worker),
        Contender("the book's pages", pages),
    ]


def _entries(post: Document, readers: Sequence[str]) -> list[Document]:
    """In the order of storage, as the worker does: in any other it takes the server twice as long."""
    return [{"_id": {"u": one, "t": post["ts"], "p": post["_id"]}, "b": post["by"]} for one in readers]


def _star(db: Db, name: str, readers: Sequence[str]) -> list[str]:
    """An author whom all of them follow, without any other effect."""
    db["social.users"].insert_one(new_member(name, name.title(), name, START))
    since = {"in_circles": [{"name": "following", "at": START}], "follower_at": START}
    for batch in _batches(readers):
        edges = [{"_id": {"owner": name, "other": one}, **since} for one in batch]
        both = [*edges, *(graph.twin(edge) for edge in edges)]
        db["social.edges"].insert_many(both, ordered=False)
    return sorted(readers)


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[first : first + 20_000] for first in range(0, len(items), 20_000))


def _on_page(reader: str, post: Document) -> UpdateOne:
    month = f"{post['ts']:%Y-%m}"
    copy = {"_id": post["_id"], "by": post["by"], "ts": post["ts"], "detail": post["detail"]}
    pushed = {"posts": {"$each": [copy], "$position": 0}}
    return UpdateOne({"_id": f"{reader}-{month}"}, {"$push": pushed}, upsert=True)


def _empty(db: Db) -> None:
    for name in ("social.news", "social.posts", "raw.news", "book.pages"):
        db[name].delete_many({})


# ---- reading ----


def _fill(db: Db, followers: dict[str, list[str]]) -> list[Document]:
    """Posts of authors at random, until there are so many deliveries; the same ones for everybody."""
    chance = random.Random(1)
    authors = [one for one in followers if len(followers[one]) >= 5]
    posts: list[Document] = []
    entries: list[Document] = []
    pages: dict[str, list[Document]] = defaultdict(list)
    made = 0
    while made < DELIVERIES:
        post = _post(10**9 + len(posts), chance.choice(authors))
        posts.append(post)
        entries += [
            {"_id": {"u": one, "t": post["ts"], "p": post["_id"]}, "b": post["by"]} for one in followers[post["by"]]
        ]
        made += len(followers[post["by"]])
        for one in followers[post["by"]]:
            pages[one].append({"_id": post["_id"], "by": post["by"], "ts": post["ts"], "detail": post["detail"]})
        if len(entries) > 50_000:
            db["social.news"].insert_many(entries, ordered=False)
            entries = []
    db["social.news"].insert_many(entries, ordered=False)
    db["social.posts"].insert_many(posts, ordered=False)
    documents = (_page_of(reader, found) for reader, found in pages.items())
    db["book.pages"].insert_many(documents, ordered=False)
    return posts


def _page_of(reader: str, posts: list[Document]) -> Document:
    """One page of the book's: the newest that fit into 1 MB; it has one for each month."""
    return {"_id": f"{reader}-2026-01", "posts": posts[::-1][:2_000]}


def _reading(
    db: Db, network: Network, pairs: list[tuple[str, str]], posts: list[Document], stack: ExitStack
) -> list[Contender]:
    chance = random.Random(2)
    follows: dict[str, list[str]] = defaultdict(list)
    for me, other in pairs:
        follows[me].append(other)
    readers = [one for one in follows if len(follows[one]) >= 5]

    def raw(_: int) -> None:
        me = chance.choice(readers)
        (found,) = db["social.users"].aggregate(queries.NEWS(user=me, limit=SCREEN + 1))
        people = sorted({me, *(post["by"] for post in found["posts"])})
        list(db["social.users"].aggregate(queries.PEOPLE(viewer=me, people=people)))

    def on_read(_: int) -> None:
        me = chance.choice(readers)
        edges = db["social.edges"].find({"_id.owner": me, "circled_at": {"$gte": START}}, {"_id.other": 1})
        authors = [edge["_id"]["other"] for edge in edges]
        list(db["social.posts"].find({"by": {"$in": authors}}).sort([("ts", -1), ("_id", -1)]).limit(SCREEN))

    def book(_: int) -> None:
        db["book.pages"].find_one({"_id": f"{chance.choice(readers)}-2026-01"}, {"posts": {"$slice": SCREEN}})

    contenders = [
        Contender("the same reads, raw", raw),
        Contender("news()", lambda _: network.news(chance.choice(readers), limit=SCREEN) and None),
        Contender("fan-out on read, raw", on_read),
        Contender("the book's pages, unchecked", book),
    ]
    query = stack.enter_context(_postgres(pairs, posts))
    if query is None:
        contenders.append(Contender("PostgreSQL join", missing="no PostgreSQL or psycopg here"))
    else:
        contenders.append(Contender("PostgreSQL join", lambda _: query(chance.choice(readers))))
    return contenders


@contextmanager
def _postgres(pairs: list[tuple[str, str]], posts: list[Document]) -> Iterator[Any]:
    """A function that reads a first screen there; None where it cannot be had."""
    try:
        import psycopg
    except ImportError:
        yield None
        return
    with private_postgres() as socket:
        if socket is None:
            yield None
            return
        with psycopg.connect(f"host={socket} user=postgres dbname=postgres", autocommit=True) as connection:
            connection.execute("create table edges (owner text, other text, primary key (owner, other))")
            connection.execute("create table posts (id text primary key, author text, ts timestamptz, body text)")
            with connection.cursor().copy("copy edges from stdin") as copy:
                for pair in dict.fromkeys(pairs):
                    copy.write_row(pair)
            with connection.cursor().copy("copy posts from stdin") as copy:
                for post in posts:
                    copy.write_row((post["_id"], post["by"], post["ts"], post["detail"]["text"]))
            connection.execute("create index on posts (author, ts desc, id desc)")
            connection.execute("analyze")
            joined = (
                "select p.* from edges e cross join lateral (select * from posts where author = e.other "
                "order by ts desc, id desc limit %s) p where e.owner = %s order by p.ts desc, p.id desc limit %s"
            )
            yield lambda me: connection.execute(joined, (SCREEN, me, SCREEN), prepare=True).fetchall() and None


# ---- further figures ----


def _bytes_each(db: Db, name: str) -> float:
    """Data and indexes, as stored, for each delivery."""
    stats = db.command("collStats", name)
    stored = stats["storageSize"] + stats.get("totalIndexSize", 0)
    return float(stored / max(DELIVERIES, 1))


def _post_to_visible(network: Network, db: Db, followers: dict[str, list[str]]) -> list[tuple[int, float]]:
    """Milliseconds from the call of `post` until the last follower's news have it, for typical sizes."""
    ordered = sorted(followers, key=lambda one: len(followers[one]))
    found = []
    for share in (0.5, 0.99, 1.0):
        author = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        began = time.perf_counter()
        network.post(author, "status", {"text": "hello"}, ["*public*"])
        network.deliver()
        found.append((len(followers[author]), (time.perf_counter() - began) * 1000))
    return found


# ---- how it grows ----


def _screens_among(connection: Connection, people: int, deliveries: int) -> tuple[int, int, float, float]:
    """How many people and deliveries there are, and how long a first screen takes among them: p50 and p99 in ms."""
    db = _fresh(connection)
    names = [f"u{number:06}" for number in range(people)]
    db["social.users"].insert_many([new_member(one, one, one, START) for one in names], ordered=False)
    # Each follows the next ones in a ring, so that everybody's news are alike. A screen reads the reader's side alone.
    edges = [
        put_in({"_id": {"owner": me, "other": names[(number + step) % people]}}, "f", START)
        for number, me in enumerate(names)
        for step in RING
    ]
    for batch in _batches(edges):
        db["social.edges"].insert_many(batch, ordered=False)
    posts = [_post(number, names[number % people]) for number in range(deliveries // len(RING))]
    for some in _batches(posts):
        db["social.posts"].insert_many(some, ordered=False)
    entries = [
        {"_id": {"u": names[number % people - step], "t": post["ts"], "p": post["_id"]}, "b": post["by"]}
        for number, post in enumerate(posts)
        for step in RING
    ]
    for some in _batches(sorted(entries, key=lambda entry: (entry["_id"]["u"], entry["_id"]["t"]))):
        db["social.news"].insert_many(some, ordered=False)
    network, chance = Network(db), random.Random(3)

    def read(_: int) -> None:
        network.news(chance.choice(names), limit=SCREEN)

    (series,) = compare([Contender("news()", read)], threads=1, rounds=3, seconds=1.0)
    connection.client.drop_database(db.name)
    return people, len(entries), series.percentile(0.5), series.percentile(0.99)


def _fresh(connection: Connection) -> Db:
    db = pinned(connection.client["bench_social"])
    connection.client.drop_database(db.name)
    schema.apply(db, [*assembly.CORE_COLLECTIONS, *social.COLLECTIONS])
    return db


# ---- one account that everybody follows ----


def _beside_the_largest(connection: Connection) -> list[list[str]]:
    """From post to visible for somebody small: alone, beside the delivery to a million, and with that merged in."""
    db = _fresh(connection)
    readers = [f"u{number:07}" for number in range(LARGEST)]
    for batch in _batches(readers):
        db["social.users"].insert_many([new_member(one, one, one, START) for one in batch], ordered=False)
    _star(db, "star", readers)
    delivering, merging = Network(db, merge_above=10**9), Network(db, settle_seconds=0)
    list(delivering.load([("reader", f"small{number}") for number in range(OTHERS)]))
    found = [_small_posts("alone", delivering, None)]
    found.append(_small_posts(f"while {LARGEST:,} are delivered", delivering, lambda: _says(delivering, "star")))
    began = time.perf_counter()
    delivering.deliver()
    _says(merging, "star")
    merging.deliver()  # above the threshold: from now on merged
    found.append(_small_posts(f"after {LARGEST:,} were noted for merging", merging, lambda: _says(merging, "star")))
    seconds = time.perf_counter() - began
    largest = max(_largest(db, name) for name in ("users", "edges", "posts", "news"))
    assert largest < 1_000_000, f"a document has {largest:,} bytes"
    assert db["social.news"].count_documents({"b": "star"}) == 2 * LARGEST, "a delivery is missing or double"
    connection.client.drop_database(db.name)
    return [
        *found,
        ["largest document", f"{largest:,} bytes", ""],
        ["the rest of both deliveries", f"{seconds:,.0f} s", ""],
    ]


def _small_posts(what: str, network: Network, first: Callable[[], object] | None) -> list[str]:
    """Median and longest milliseconds from `post` until its one reader has it, beside a worker that is always at it."""
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


def _write(
    delivered: list[tuple[int, list[Series]]],
    screens: list[Series],
    figures: dict[str, float],
    sizes: dict[str, float],
    visible: list[tuple[int, float]],
    grown: list[tuple[int, int, float, float]],
    beside: list[list[str]],
    version: str,
    rounds: int,
    seconds: float,
) -> None:
    delivering = [
        [one.name, f"{size:,}", f"{one.rate * size:,.0f}", f"{one.ratio_to(all_of_size[0]):.2f}x"]
        for size, all_of_size in delivered
        for one in all_of_size
    ]
    reading = [
        [one.name, *(f"{one.percentile(share):.2f}" for share in (0.5, 0.99)), f"{one.ratio_to(screens[0]):.2f}x"]
        if one.rounds
        else [one.name, one.missing, "", ""]
        for one in screens
    ]
    parts = [
        report.machine(version),
        f"One process, one thread; {rounds} interleaved rounds of {seconds:g} s. Only the ratios count. The graph is "
        f"wiki-vote of SNAP: {figures['users']:,.0f} people, {figures['edges']:,.0f} edges, loaded at "
        f"{figures['loaded']:,.0f} edges a second. A screen has {SCREEN} posts, out of {DELIVERIES:,} deliveries.",
        "## Delivering a post",
        report.table(["how", "followers", "deliveries/s", "times raw"], delivering),
        "## A first screen",
        report.table(["how", "p50 ms", "p99 ms", "rate, times raw"], reading),
        "## A first screen as the network grows",
        report.table(
            ["people", "deliveries", "p50 ms", "p99 ms"],
            [[f"{people:,}", f"{made:,}", f"{p50:.2f}", f"{p99:.2f}"] for people, made, p50, p99 in grown],
        ),
        f"## Beside an account with {LARGEST:,} followers",
        "From the call of `post` by somebody with one follower until that one's news have it, with one worker.",
        report.table(["when", "median", "longest"], beside),
        "## From post to visible",
        report.table(["followers", "ms until the last one has it"], [[f"{n:,}", f"{ms:,.0f}"] for n, ms in visible]),
        "## Bytes stored for a delivery, compressed",
        report.table(["how", "bytes"], [[name, f"{each:,.0f}"] for name, each in sizes.items()]),
    ]
    report.write_page("social", "Social", parts)
