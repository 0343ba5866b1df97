"""Measures how quickly a first screen is read, compared with other methods, and as the network grows."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from bench._social_data import START, batches, entry, fresh, new_post
from bench.harness import Contender, Series, compare
from bench.postgres import private_postgres
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db, Document
from squinney.social import Network, queries
from squinney.social.members.accounts import new_member
from squinney.social.members.edges import with_circle

SCREEN = 20
RING = range(1, 6)

Pairs = Sequence[tuple[str, str]]


def screens(db: Db, pairs: Pairs, posts: list[Document], rounds: int, seconds: float) -> list[list[str]]:
    """Return a row for each method of reading a first screen."""
    with ExitStack() as stack:
        contenders = _reading(db, pairs, posts, stack)
        series = compare(contenders, threads=1, rounds=rounds, seconds=seconds)
    return [
        _row(contender, series[0]) if contender.rounds else [contender.name, contender.missing, "", ""]
        for contender in series
    ]


def _row(contender: Series, raw: Series) -> list[str]:
    return [
        contender.name,
        f"{contender.percentile(0.5):.2f}",
        f"{contender.percentile(0.99):.2f}",
        f"{1 / contender.ratio_to(raw):.2f}x",
    ]


def fill(db: Db, followers: dict[str, list[str]], deliveries: int) -> list[Document]:
    """Insert posts by random authors with this many deliveries, the same posts for every method, and return them."""
    for name in ("social.news", "social.posts", "raw.news", "book.pages"):
        db[name].delete_many({})
    chance = random.Random(1)
    authors = [author for author in followers if len(followers[author]) >= 5]
    posts: list[Document] = []
    of_reader: dict[str, list[Document]] = defaultdict(list)
    made = 0
    while made < deliveries:
        post = new_post(10**9 + len(posts), chance.choice(authors))
        posts.append(post)
        for reader in followers[post["by"]]:
            of_reader[reader].append(post)
        made += len(followers[post["by"]])
    entries = [entry(post, reader) for reader in sorted(of_reader) for post in of_reader[reader]]
    for some in batches(entries):
        db["social.news"].insert_many(some, ordered=False)
    db["social.posts"].insert_many(posts, ordered=False)
    pages = (_page_of(reader, posts) for reader, posts in of_reader.items())
    db["book.pages"].insert_many(pages, ordered=False)
    return posts


def _page_of(reader: str, posts: list[Document]) -> Document:
    """Return a page as in the book, which has one per reader and month: the newest posts that fit into 1 MB."""
    fields = ("_id", "by", "ts", "detail")
    copies = [{name: post[name] for name in fields} for post in posts[::-1][:2_000]]
    return {"_id": f"{reader}-2026-01", "posts": copies}


def _reading(db: Db, pairs: Pairs, posts: list[Document], stack: ExitStack) -> list[Contender]:
    chance = random.Random(2)
    network = Network(db)
    follows: dict[str, list[str]] = defaultdict(list)
    for me, other in pairs:
        follows[me].append(other)
    readers = [reader for reader in follows if len(follows[reader]) >= 5]

    def raw(_: int) -> None:
        me = chance.choice(readers)
        (news,) = db["social.users"].aggregate(queries.NEWS(user=me, limit=SCREEN + 1))
        people = sorted({me, *(post["by"] for post in news["posts"])})
        list(db["social.users"].aggregate(queries.PEOPLE(viewer=me, people=people)))

    def on_read(_: int) -> None:
        me = chance.choice(readers)
        edges = db["social.edges"].find({"_id.owner": me, "circled_at": {"$gte": START}}, {"_id.other": 1})
        authors = [edge["_id"]["other"] for edge in edges]
        list(db["social.posts"].find({"by": {"$in": authors}}).sort([("ts", -1), ("_id", -1)]).limit(SCREEN))

    def book(_: int) -> None:
        db["book.pages"].find_one({"_id": f"{chance.choice(readers)}-2026-01"}, {"posts": {"$slice": SCREEN}})

    query, missing = stack.enter_context(_postgres(pairs, posts))
    join = None if missing else lambda _: query(chance.choice(readers))
    return [
        Contender("the same reads, raw", raw),
        Contender("news()", lambda _: network.news(chance.choice(readers), limit=SCREEN) and None),
        Contender("fan-out on read, raw", on_read),
        Contender("the book's pages, unchecked", book),
        Contender("PostgreSQL join", join, missing=missing),
    ]


@contextmanager
def _postgres(pairs: Pairs, posts: list[Document]) -> Iterator[tuple[Any, str]]:
    """Yield a function that reads a first screen from PostgreSQL, or None and the reason why there is none."""
    try:
        import psycopg
    except ImportError:
        yield None, "the package psycopg is missing: pip install 'psycopg[binary]'"
        return
    with private_postgres() as socket:
        if socket is None:
            yield None, "no PostgreSQL here (initdb is in none of the usual folders)"
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
            yield lambda me: connection.execute(joined, (SCREEN, me, SCREEN), prepare=True).fetchall() and None, ""


# ---- growth ----


def screens_among(connection: Connection, people: int, deliveries: int, seconds: float) -> list[str]:
    """Measure a first screen in a network of this size; return people, deliveries, and p50 and p99 in ms."""
    db = fresh(connection)
    names = [f"u{number:06}" for number in range(people)]
    made = _fill_ring(db, names, deliveries)
    network, chance = Network(db), random.Random(3)

    def read(_: int) -> None:
        network.news(chance.choice(names), limit=SCREEN)

    (series,) = compare([Contender("news()", read)], threads=1, rounds=3, seconds=seconds)
    connection.client.drop_database(db.name)
    return [f"{people:,}", f"{made:,}", f"{series.percentile(0.5):.2f}", f"{series.percentile(0.99):.2f}"]


def _fill_ring(db: Db, names: list[str], deliveries: int) -> int:
    """Insert members in a ring, each of whom follows the next ones, so that all news are similar.

    Only the readers' side of each edge is inserted, because a screen reads no other.
    """
    people = len(names)
    posts = [new_post(number, names[number % people]) for number in range(deliveries // len(RING))]
    edges = [
        with_circle({"_id": {"owner": me, "other": names[(number + step) % people]}}, "f", START)
        for number, me in enumerate(names)
        for step in RING
    ]
    entries = [entry(post, names[number % people - step]) for number, post in enumerate(posts) for step in RING]
    entries.sort(key=lambda entry: (entry["_id"]["u"], entry["_id"]["t"]))
    users = [new_member(name, name, name, START) for name in names]
    for name, documents in (("users", users), ("edges", edges), ("posts", posts), ("news", entries)):
        for some in batches(documents):
            db[f"social.{name}"].insert_many(some, ordered=False)
    return len(entries)
