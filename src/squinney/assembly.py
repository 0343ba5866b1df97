"""The one list of systems. Adapters iterate over it and nothing else: a new system is one folder and one line here."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

from squinney import analytics, commerce, content, identity, ledger, transactions
from squinney.analytics import proof as analytics_proof
from squinney.commerce import proof as commerce_proof
from squinney.content import proof as content_proof
from squinney.errors import Conflict
from squinney.ledger import proof as ledger_proof
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db
from squinney.patterns import follow, leases, migrations, queue, sequences
from squinney.patterns import jobs as job_records
from squinney.patterns.jobs import Job
from squinney.patterns.migrations import Migration
from squinney.transactions import Mode, Transactions


@dataclass(frozen=True)
class Proof:
    """What `squinney prove` needs of a system; `ledger/proof.py` is the model."""

    prepare: Callable[[Db], None]
    work: Callable[[Db, Mode, int], None]
    settle: Callable[[Db], Mapping[str, int]]
    progress: Callable[[Db], int]
    check: Callable[[Db], Mapping[str, str]]

    @classmethod
    def of(cls, module: ModuleType) -> Self:
        """The proof that a system's `proof.py` makes."""
        return cls(module.prepare, module.work, module.settle, module.progress, module.check)


@dataclass(frozen=True)
class System:
    """One system as the adapters see it.

    `build(db, transactions)` makes its nouns, by name. `figures` are the live numbers of its card on the home page,
    cheap enough to be asked for at every view; `path` is where its pages begin, `listed` whether the menu
    and the home page show it. The adapters find its routes, pages and
    commands in its surface: `<name>/surface/api.py`, `web.py`, `cli.py`.
    """

    name: str
    title: str
    what: str
    collections: Sequence[Collection]
    queries: Sequence[Query | Pipeline]
    build: Callable[[Db, Transactions], Mapping[str, Any]]
    jobs: Sequence[Job] = ()
    find_problems: Callable[[Db], Iterator[Problem]] = lambda db: iter(())
    repair: Callable[[Db], Counter[str]] = lambda db: Counter()
    demo: Callable[[Db], None] = lambda db: None
    figures: Callable[[Db], Mapping[str, int | str]] = lambda db: {}
    proof: Proof | None = None
    migrations: Callable[[Db], Sequence[Migration]] = lambda db: ()
    path: str = ""
    listed: bool = True

    def __post_init__(self) -> None:
        if not self.path:
            object.__setattr__(self, "path", self.name)


def _build_commerce(db: Db, transactions: Transactions) -> dict[str, Any]:
    gateway = commerce.gateway_for(db)
    orders = commerce.Orders(db, payments=gateway, transactions=transactions)
    return {
        "catalog": commerce.Catalog(db, transactions=transactions),
        "categories": commerce.Categories(db),
        "inventory": commerce.Inventory(db, transactions=transactions),
        "carts": commerce.Carts(db, payments=gateway, orders=orders, transactions=transactions),
        "orders": orders,
    }


SYSTEMS = (
    System(
        name="analytics",
        title="Analytics",
        what="Logs imported exactly once, hits by the minute, and roll-ups from hours to years.",
        collections=analytics.COLLECTIONS,
        queries=analytics.QUERIES,
        build=analytics.build,
        jobs=analytics.JOBS,
        find_problems=analytics.find_problems,
        repair=analytics.repair,
        demo=analytics.demo,
        figures=analytics.figures,
        proof=Proof.of(analytics_proof),
    ),
    System(
        name="ledger",
        title="Ledger",
        what="Accounts between which money moves, and is never made, lost or spent twice.",
        collections=ledger.COLLECTIONS,
        queries=ledger.QUERIES,
        build=lambda db, transactions: {"accounts": ledger.Accounts(db, transactions=transactions)},
        find_problems=ledger.find_problems,
        repair=ledger.repair,
        demo=ledger.demo,
        figures=ledger.figures,
        proof=Proof.of(ledger_proof),
    ),
    System(
        name="commerce",
        title="Shop",
        what="A catalog, a category tree, carts that reserve stock, and orders paid for exactly once.",
        collections=commerce.COLLECTIONS,
        queries=commerce.QUERIES,
        build=_build_commerce,
        jobs=commerce.JOBS,
        find_problems=commerce.find_problems,
        repair=commerce.repair,
        demo=commerce.demo,
        figures=commerce.figures,
        proof=Proof.of(commerce_proof),
        path="shop",
    ),
    System(
        name="content",
        title="Site",
        what="Pages, a blog, photos and comments, with drafts, history and merges.",
        collections=content.COLLECTIONS,
        queries=content.QUERIES,
        build=content.build,
        jobs=content.JOBS,
        find_problems=content.find_problems,
        repair=content.repair,
        demo=content.demo,
        figures=content.figures,
        proof=Proof.of(content_proof),
        path="site",
    ),
    System(
        name="identity",
        title="People",
        what="People who sign in, what they may do, and the keys of trusted servers.",
        collections=identity.COLLECTIONS,
        queries=identity.QUERIES,
        build=lambda db, transactions: {
            "people": identity.People(db, transactions=transactions),
            "sessions": identity.Sessions(db),
            "keys": identity.Keys(db),
            "invitations": identity.Invitations(db, transactions=transactions),
        },
        find_problems=identity.find_problems,
        repair=identity.repair,
        listed=False,
    ),
)

DEMO_SECONDS = 60.0
DEMO = Collection("demo", unsharded="one small document per system")
CORE = (transactions, sequences, migrations, leases, queue, follow, job_records)
CORE_COLLECTIONS = [*(collection for pattern in CORE for collection in pattern.COLLECTIONS), DEMO]
CORE_QUERIES = [query for pattern in (transactions, leases, queue, follow, job_records) for query in pattern.QUERIES]
CORE_JOBS = [
    Job(
        "recover-transactions",
        every_seconds=5,
        run=lambda db: Transactions(db).recover(),
        what="finishes or undoes what crashed processes left half done",
    )
]


def collections() -> list[Collection]:
    """Every declared collection, the core's first."""
    return [*CORE_COLLECTIONS, *(collection for system in SYSTEMS for collection in system.collections)]


def queries() -> list[Query | Pipeline]:
    """Every declared query, the core's first."""
    return [*CORE_QUERIES, *(query for system in SYSTEMS for query in system.queries)]


def jobs() -> list[Job]:
    """Every declared job, the core's first."""
    return [*CORE_JOBS, *(job for system in SYSTEMS for job in system.jobs)]


@dataclass(frozen=True)
class Assembled:
    """All systems, built on one database."""

    db: Db
    transactions: Transactions
    nouns: Mapping[str, Mapping[str, Any]]


def assemble(db: Db, *, mode: Mode = "auto") -> Assembled:
    """Build every system's nouns."""
    db = pinned(db)
    runner = Transactions(db, mode)
    return Assembled(db, runner, {system.name: system.build(db, runner) for system in SYSTEMS})


def load_demo(db: Db) -> None:
    """Load each system's demo data, once per database, however many processes begin with it at once.

    Atomic: each system's own operations.
    After a crash: the next call goes on.
    Raises: `Conflict` where others are in the way for a minute.
    """
    db = pinned(db)
    until = time.monotonic() + DEMO_SECONDS
    for system in SYSTEMS:
        while db["demo"].find_one({"_id": system.name}) is None:
            try:
                system.demo(db)
            except Conflict:  # another process loads it too: what is left is done by whoever comes first
                if time.monotonic() > until:
                    raise
                time.sleep(random.uniform(0.1, 0.5))
            else:
                db["demo"].update_one({"_id": system.name}, {"$set": {"loaded": True}}, upsert=True)


def system_named(name: str) -> System | None:
    """The system of that name."""
    return next((system for system in SYSTEMS if system.name == name), None)
