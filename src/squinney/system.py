"""What a system declares of itself, in `<group>/system.py`, and what a process makes of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, Self

from squinney.errors import SquinneyError
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db
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

    @staticmethod
    def transactions(db: Db, mode: Mode) -> Transactions:
        """For its workers: short deadlines, so that what a killed one left is settled within seconds."""
        return Transactions(db, mode, timeout_seconds=2, margin_seconds=0.5, tombs_for_seconds=5)


@dataclass(frozen=True)
class System:
    """One system, or a group of systems that share their data, as everything else sees it.

    `package` is where its code is, as `__package__` says it; its `name` is the last part of that. `build(db,
    transactions)` makes its objects, by name, and `close` ends what they began. `figures` are the live numbers of its
    card on the home page, cheap enough to be asked for at every view.

    What callers see of it is in its package `surface`, and each part is found by its name: `api.py` (a `router` of HTTP
    routes), `web.py` (a `router` of pages), `cli.py` (an `app` of commands), `templates/` and `static/`. All are
    optional. `path` is where its pages begin, by default its name: without a page there, no menu shows it.
    """

    package: str
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
    close: Callable[[Mapping[str, Any]], None] = lambda services: None
    path: str = ""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.package.rpartition(".")[2])
        if not self.path:
            object.__setattr__(self, "path", self.name)

    def surface(self, part: str) -> ModuleType | None:
        """A module of its surface: `api`, `web` or `cli`; None where it has none."""
        return module_at(f"{self.package}.surface.{part}")


def counts_of(collections: Mapping[str, str]) -> Callable[[Db], Mapping[str, int]]:
    """Figures of a card: how many documents each collection has, by the name shown.

    From the collections' own statistics, which cost the same however much there is.
    """
    return lambda db: {shown: pinned(db)[name].estimated_document_count() for shown, name in collections.items()}


def module_at(name: str) -> ModuleType | None:
    """The module of that name; None where it, or a package that it is in, is not there."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            return None
        raise  # it is there, and needs something that is not


@dataclass(frozen=True)
class Assembled:
    """Systems, built on one database; `services` are their objects, by system and name."""

    db: Db
    transactions: Transactions
    services: Mapping[str, Mapping[str, Any]]
    systems: Sequence[System]

    def close(self) -> None:
        """Let each system end its threads and give back what it holds. One that fails keeps no other from it."""
        for system in self.systems:
            with suppress(SquinneyError):  # what it holds comes back by itself, as after a crash
                system.close(self.services[system.name])
