"""The declaration of a system, made in `<group>/system.py`, and the systems that a process has built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, Self

from squinney.errors import Invalid, SquinneyError
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db
from squinney.patterns.batches import Batches
from squinney.patterns.jobs import Job
from squinney.transactions import Transactions


@dataclass(frozen=True)
class Proof:
    """The functions that `squinney prove` calls for a system; see `ledger/proof.py` for an example."""

    prepare: Callable[[Db], None]
    work: Callable[[Db, int], None]
    settle: Callable[[Db], Mapping[str, int]]
    progress: Callable[[Db], int]
    check: Callable[[Db], Mapping[str, str]]

    @classmethod
    def of(cls, module: ModuleType) -> Self:
        """Return the proof that a module `proof.py` defines."""
        return cls(module.prepare, module.work, module.settle, module.progress, module.check)

    @staticmethod
    def transactions(db: Db) -> Transactions:
        """Return transactions for the proof's workers, with a short time limit: none waits long for a killed one."""
        return Transactions(db, timeout_seconds=2)


@dataclass(frozen=True)
class System:
    """The declaration of one system, or of a group of systems that share their data.

    `package` is the `__package__` of its code, and `name` the last part of that. `build(db, transactions)` returns its
    objects by name, and `close` ends their threads. `figures` returns the live numbers of its card on the home page; it
    must be cheap, because every view of the page calls it.

    Its user interfaces are in its package `surface`, and are found by name: `api.py` (a `router` of HTTP routes),
    `web.py` (a `router` of pages), `cli.py` (an `app` of commands), `templates/` and `static/`. All are optional.
    `path` is the first part of its pages' URLs, by default its name. Without a page there, it is not in the menu.
    """

    package: str
    title: str
    what: str
    collections: Sequence[Collection] = field(repr=False)
    queries: Sequence[Query | Pipeline] = field(repr=False)
    build: Callable[[Db, Transactions], Mapping[str, Any]] = field(repr=False)
    jobs: Sequence[Job] = ()
    find_problems: Callable[[Db], Iterator[Problem]] = lambda db: iter(())
    repair: Callable[[Db], Counter[str]] = lambda db: Counter()
    demo: Callable[[Db], None] = lambda db: None
    figures: Callable[[Db], Mapping[str, int | str]] = lambda db: {}
    proof: Proof | None = None
    migrations: Callable[[Db], Sequence[Batches]] = lambda db: ()
    close: Callable[[Mapping[str, Any]], None] = lambda services: None
    path: str = ""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.package.rpartition(".")[2])
        if not self.path:
            object.__setattr__(self, "path", self.name)

    def surface(self, part: str) -> ModuleType | None:
        """Return a module of its surface (`api`, `web` or `cli`), or None."""
        return module_at(f"{self.package}.surface.{part}")


def counts_of(collections: Mapping[str, str]) -> Callable[[Db], Mapping[str, int]]:
    """Return `figures` for a card: the number of documents of each collection, by the name that is shown.

    The counts come from the collections' metadata, so their cost does not depend on the size.
    """
    return lambda db: {shown: pinned(db)[name].estimated_document_count() for shown, name in collections.items()}


def module_at(name: str) -> ModuleType | None:
    """Return the module of that name, or None if it or one of its packages does not exist."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            return None
        raise  # the module exists, but something that it imports does not


def system_in(package: str) -> System:
    """Return the system that a package declares: its `system.SYSTEM`.

    Raises: `Invalid`.
    """
    module = module_at(f"{package}.system")
    if module is None:
        raise Invalid(
            f"there is no module {package}.system: is the folder of {package} in PYTHONPATH?", field="systems"
        )
    declared = getattr(module, "SYSTEM", None)
    if not isinstance(declared, System):
        raise Invalid(f"{package}.system must declare SYSTEM, a squinney.system.System", field="systems")
    if declared.package != package:
        wrong = f"{package}.system.SYSTEM has the package {declared.package!r}; write System(__package__, ...)"
        raise Invalid(wrong, field="systems")
    return declared


Part = ModuleType | System


def system_of(part: Part) -> System:
    """Return the system that a package such as `squinney.commerce` declares, or the system itself.

    Raises: `Invalid`.
    """
    if isinstance(part, System):
        return part
    if not isinstance(part, ModuleType):
        raise Invalid(f"give systems, such as squinney.ledger, not {part!r}", field="systems")
    return system_in(part.__name__)


@dataclass(frozen=True)
class Assembled:
    """Systems that are built on one database; `services` has their objects by system and name."""

    db: Db
    transactions: Transactions
    services: Mapping[str, Mapping[str, Any]]
    systems: Sequence[System]

    def close(self) -> None:
        """Let each system end its threads and release its leases; an error in one does not stop the others."""
        for system in self.systems:
            with suppress(SquinneyError):  # its leases expire, as after a crash
                system.close(self.services[system.name])
