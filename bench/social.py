"""Deliveries and first screens on a real graph, beside raw reads and writes, the book's pages and PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench import report
from bench._social_data import START, followers_in, fresh, graph
from bench._social_delivering import BACKLOG, PAGES, delivering, until_visible
from bench._social_largest import beside_the_largest
from bench._social_reading import SCREEN, fill, screens, screens_among
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db
from squinney.social import Network

ROUNDS = 9
DELIVERIES = 1_000_000
LARGEST = 1_000_000  # followers
GROWTH = [(1_000, 10_000), (10_000, 100_000), (100_000, 1_000_000)]  # people, deliveries


@dataclass
class Growing:
    """The page, written anew with each part: a run that is ended early has measured something."""

    parts: list[str] = field(default_factory=list)

    def add(self, title: str, text: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """One more part, also on the screen."""
        made = report.table(head, rows)
        print(f"{title}\n{made}", flush=True)
        self.parts += [f"## {title}", text, made]
        self.write()

    def write(self) -> None:
        """As far as it has come."""
        report.write_page("social", "Social", [part for part in self.parts if part])


def run(connection: Connection, *, rounds: int = ROUNDS, seconds: float = 1.0) -> None:
    """Measure, and write the page; with fewer rounds everything is a tenth as large."""
    share = 1 if rounds >= ROUNDS else 10
    page = Growing([report.machine(connection.client.admin.command("buildInfo")["version"])])
    db, pairs = fresh(connection), list(graph())
    loaded = _load(db, pairs)
    followers = followers_in(pairs)
    page.parts.append(
        f"One process, one thread; {rounds} interleaved rounds. Only the ratios count. The graph is wiki-vote of SNAP: "
        f"{db['social.users'].estimated_document_count():,} people, {len(pairs):,} edges, loaded at {loaded:,.0f} "
        "edges a second."
    )
    page.add(
        "Delivering posts",
        f"A backlog of posts with {BACKLOG:,} deliveries is worked off by one worker, who takes their tasks, looks up "
        f"the followers and ends the tasks. Beside it the same entries in one raw `insert_many`, and {PAGES:,} of them "
        "pushed to the book's pages.",
        ["how", "whose posts", "deliveries/s", "times raw"],
        delivering(db, followers, rounds),
    )
    posts = fill(db, followers, DELIVERIES // share)
    stored = {name: _bytes_each(db, name, DELIVERIES // share) for name in ("social.news", "book.pages")}
    page.add(
        "A first screen",
        f"{SCREEN} posts, out of {DELIVERIES // share:,} deliveries.",
        ["how", "p50 ms", "p99 ms", "time, times raw"],
        screens(db, pairs, posts, rounds, seconds),
    )
    page.add("Bytes stored for a delivery, compressed", "", ["how", "bytes"], [[*one] for one in stored.items()])
    visible = until_visible(Network(db, merge_above=10**9), followers)
    page.add("From post to visible", "", ["followers", "ms until the last one has it"], visible)
    connection.client.drop_database(db.name)
    page.add(
        "A first screen as the network grows",
        "",
        ["people", "deliveries", "p50 ms", "p99 ms"],
        [screens_among(connection, people // share, made // share, seconds) for people, made in GROWTH],
    )
    page.add(
        f"Beside an account with {LARGEST // share:,} followers",
        "From the call of `post` by somebody with one follower until that one's news have it, with one worker.",
        ["when", "median", "longest"],
        beside_the_largest(connection, LARGEST // share),
    )


def _load(db: Db, pairs: list[tuple[str, str]]) -> float:
    """Edges a second."""
    began = time.perf_counter()
    for _ in Network(db, clock=lambda: START).load(pairs):
        pass
    return len(pairs) / (time.perf_counter() - began)


def _bytes_each(db: Db, name: str, deliveries: int) -> str:
    """Data and indexes, as stored, for each delivery."""
    stats = db.command("collStats", name)
    return f"{(stats['storageSize'] + stats.get('totalIndexSize', 0)) / deliveries:,.0f}"
