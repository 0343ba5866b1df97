"""Measures how quickly posts are delivered to their readers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence

from pymongo import UpdateOne

from bench._social_data import add_star, entry, new_post
from bench.harness import Round, Series
from squinney.mongo.schema import Db, Document
from squinney.social import Network
from squinney.social.documents import CLUSTERED

BACKLOG = 10_000  # deliveries that wait when the clock starts
PAGES = 2_000  # fewer for the book's pages, which take many times as long
SEVERAL_HUNDRED = range(300, 501)

Followers = dict[str, list[str]]


def delivering(db: Db, followers: Followers, rounds: int) -> list[list[str]]:
    """Return a row for each method and each group of authors."""
    db.create_collection("raw.news", **CLUSTERED)
    everyone = [person["_id"] for person in db["social.users"].find({}, {"_id": 1})]
    add_star(db, "star", everyone)
    several = {author: readers for author, readers in followers.items() if len(readers) in SEVERAL_HUNDRED}
    numbers = iter(range(10**9))
    rows = []
    for what, authors in (
        ("random authors", followers),
        (f"{SEVERAL_HUNDRED[0]} to {SEVERAL_HUNDRED[-1]} followers", several),
        (f"all {len(everyone):,} members", {"star": everyone}),
    ):
        series = _compared(db, authors, numbers, rounds)
        rows += [
            [contender.name, what, f"{contender.rate:,.0f}", f"{contender.ratio_to(series[0]):.2f}x"]
            for contender in series
        ]
    return rows


def _compared(db: Db, authors: Followers, numbers: Iterator[int], rounds: int) -> list[Series]:
    chance = random.Random(1)
    network = Network(db, merge_above=10**9)
    series = [Series("raw insert_many"), Series("the worker"), Series("the book's pages")]
    for number in range(rounds + 1):
        posts = _backlog(db, authors, numbers, chance)
        ways = [_raw(db, authors, posts), _worker(network, posts), _pages(db, authors, posts)]
        timed = list(zip(series, ways, strict=True))
        for contender, way in timed if number % 2 == 0 else reversed(timed):
            began = time.perf_counter()
            made = way()
            if number:  # the first round is a warm-up
                contender.rounds.append(Round(made, time.perf_counter() - began, []))
    return series


def _backlog(db: Db, authors: Followers, numbers: Iterator[int], chance: random.Random) -> list[Document]:
    """Insert posts that are not delivered yet, with `BACKLOG` readers in all."""
    posts: list[Document] = []
    names, size = list(authors), 0
    while size < BACKLOG:
        post = new_post(next(numbers), chance.choice(names))
        posts.append(post)
        size += len(authors[post["by"]])
    db["social.posts"].insert_many(posts)
    return posts


def _raw(db: Db, authors: Followers, posts: Sequence[Document]) -> Callable[[], int]:
    """Insert the same entries in one call, in storage order, because any other order takes the server twice as long."""
    ordered = sorted((reader, number) for number, post in enumerate(posts) for reader in authors[post["by"]])

    def work() -> int:
        db["raw.news"].insert_many([entry(posts[number], reader) for reader, number in ordered], ordered=False)
        return len(ordered)

    return work


def _worker(network: Network, posts: Sequence[Document]) -> Callable[[], int]:
    """Run the worker: take the tasks, read the posts and the followers, insert the entries, end the tasks."""
    for post in posts:
        network._queue.put({"do": "deliver", "post": post["_id"]})
    news = network._db["social.news"]
    before = news.estimated_document_count()

    def work() -> int:
        network.deliver()
        return news.estimated_document_count() - before

    return work


def _pages(db: Db, authors: Followers, posts: Sequence[Document]) -> Callable[[], int]:
    pairs = [(reader, post) for post in posts for reader in authors[post["by"]]][:PAGES]

    def work() -> int:
        db["book.pages"].bulk_write([_on_page(reader, post) for reader, post in pairs], ordered=False)
        return len(pairs)

    return work


def _on_page(reader: str, post: Document) -> UpdateOne:
    copy = {"_id": post["_id"], "by": post["by"], "ts": post["ts"], "detail": post["detail"]}
    pushed = {"posts": {"$each": [copy], "$position": 0}}
    return UpdateOne({"_id": f"{reader}-{post['ts']:%Y-%m}"}, {"$push": pushed}, upsert=True)


def until_visible(network: Network, followers: Followers) -> list[list[str]]:
    """Measure the milliseconds from `post` until the last follower's news contain the post, for typical sizes."""
    ordered = sorted(followers, key=lambda author: len(followers[author]))
    rows = []
    for share in (0.5, 0.99, 1.0):
        author = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        began = time.perf_counter()
        network.post(author, "status", {"text": "hello"}, ["*public*"])
        network.deliver()
        rows.append([f"{len(followers[author]):,}", f"{(time.perf_counter() - began) * 1000:,.0f}"])
    return rows
