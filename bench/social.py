"""Deliveries and first screens on a real graph, compared with the plain driver, the book's pages and PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench import report
from bench._social_data import START, followers_in, fresh, graph
from bench._social_delivering import BACKLOG, PAGES, delivering, until_visible
from bench._social_largest import next_to_the_largest
from bench._social_reading import SCREEN, fill, screens, screens_among
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db
from squinney.social import Network

ROUNDS = 9
DELIVERIES = 1_000_000
LARGEST = 1_000_000  # followers
GROWTH = [(1_000, 10_000), (10_000, 100_000), (100_000, 1_000_000)]  # people, deliveries


@dataclass
class Report:
    """The report, which is written again after each part, so that an interrupted run leaves a result."""

    parts: list[str] = field(default_factory=list)

    def add(self, title: str, text: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a part, print it, and write the page."""
        made = report.table(head, rows)
        print(f"{title}\n{made}", flush=True)
        self.parts += [f"## {title}", text, made]
        self.write()

    def write(self) -> None:
        """Write the page with the parts so far."""
        report.write_page("social", "Social", [part for part in self.parts if part])


def run(connection: Connection, *, rounds: int = ROUNDS, seconds: float = 1.0) -> None:
    """Measure, and write the page. With fewer rounds, all sizes are a tenth."""
    share = 1 if rounds >= ROUNDS else 10
    page = Report([report.machine(connection.client.admin.command("buildInfo")["version"])])
    db, pairs = fresh(connection), list(graph())
    loaded = _load(db, pairs)
    followers = followers_in(pairs)
    page.parts.append(
        f"One process, one thread; {rounds} interleaved rounds. Compare the ratios only. The graph is wiki-vote of "
        f"SNAP: {db['social.users'].estimated_document_count():,} people and {len(pairs):,} edges, loaded at "
        f"{loaded:,.0f} edges per second."
    )
    page.add(
        "Delivering posts",
        f"One worker processes a backlog of posts with {BACKLOG:,} deliveries: it takes their tasks, reads the "
        "followers, inserts the entries and ends the tasks. For comparison, one raw `insert_many` inserts the same "
        f"entries, and {PAGES:,} of the posts are pushed to the book's pages.",
        ["method", "authors", "deliveries/s", "times raw"],
        delivering(db, followers, rounds),
    )
    posts = fill(db, followers, DELIVERIES // share)
    stored = {name: _bytes_each(db, name, DELIVERIES // share) for name in ("social.news", "book.pages")}
    page.add(
        "A first screen",
        f"The first {SCREEN} posts of one reader, with {DELIVERIES // share:,} deliveries stored.",
        ["method", "p50 ms", "p99 ms", "time, times raw"],
        screens(db, pairs, posts, rounds, seconds),
    )
    page.add("Bytes per delivery, compressed", "", ["collection", "bytes"], [[*size] for size in stored.items()])
    visible = until_visible(Network(db, merge_above=10**9), followers)
    page.add("From post to visible", "", ["followers", "ms until the last follower sees the post"], visible)
    connection.client.drop_database(db.name)
    page.add(
        "A first screen as the network grows",
        "",
        ["people", "deliveries", "p50 ms", "p99 ms"],
        [screens_among(connection, people // share, made // share, seconds) for people, made in GROWTH],
    )
    page.add(
        f"Next to an account with {LARGEST // share:,} followers",
        "The time from the call of `post`, by an author with one follower, until the post is in the follower's news. "
        "One worker runs.",
        ["state", "median", "longest"],
        next_to_the_largest(connection, LARGEST // share),
    )


def _load(db: Db, pairs: list[tuple[str, str]]) -> float:
    """Load the graph and return the number of edges per second."""
    began = time.perf_counter()
    for _ in Network(db, clock=lambda: START).load(pairs):
        pass
    return len(pairs) / (time.perf_counter() - began)


def _bytes_each(db: Db, name: str, deliveries: int) -> str:
    """Return the stored size of data and indexes per delivery."""
    stats = db.command("collStats", name)
    return f"{(stats['storageSize'] + stats.get('totalIndexSize', 0)) / deliveries:,.0f}"
