"""Scenes to explore: prepared documents, and operations that change the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from typing import Any

from squinney import assembly
from squinney.mongo.schema import Collection, Db
from squinney.system import System
from squinney.testing import Explored, Explorer, Operation
from squinney.testing.explorer import GIVES_UP
from squinney.testing.protocol import recover
from squinney.transactions import Mode, Transactions

Act = Callable[[Db, Mode, Any], object]
BOTH: tuple[Mode, ...] = ("native", "two-phase")
CI_SECONDS = 20.0  # for one operation, so that no deadline expires by accident on a busy machine


def transactions(db: Db, mode: Mode) -> Transactions:
    """Return `Transactions` for operations under the explorer."""
    return Transactions(db, mode, timeout_seconds=CI_SECONDS, margin_seconds=1)


@dataclass(frozen=True)
class Scene:
    """A prepared system and the operations that run concurrently on it.

    `composed` are operations of several runs or transactions, such as a checkout, which pays in between. They must keep
    the system's invariants; all others are also compared with their serial orders. `excused` are errors that say that
    another operation interfered; the operation must then have changed nothing. `crashes` is 0 for operations whose
    docstrings say what a crash leaves, if the crash sweep checks that and the serial orders never leave it.
    """

    name: str
    system: str
    prepare: Callable[[Db], Any]
    operations: Mapping[str, Act]
    modes: Sequence[Mode] = BOTH
    composed: Sequence[str] = ()
    excused: tuple[type[Exception], ...] = ()
    ignored: Sequence[str] = ()
    crashes: int = 1
    check: Callable[[Db, Any], object] = lambda db, state: None
    age: Callable[[Db], object] = lambda db: None
    between: Sequence[Callable[[Db], object]] = field(default_factory=list)
    _alone: dict[str, Callable[[Db, Any], object]] = field(default_factory=dict)

    @property
    def collections(self) -> list[Collection]:
        """The collections of its database."""
        return [*assembly.CORE_COLLECTIONS, *self._found.collections]

    @property
    def _found(self) -> System:
        """The `System` that `system` names: one of Squinney's by its name, or another by its package."""
        return assembly.system_named(self.system) or assembly.system_in(self.system)

    def pairs(self) -> list[tuple[str, ...]]:
        """Return every pair of operations, also of one with itself."""
        return list(combinations_with_replacement(self.operations, 2))

    def modes_of(self, names: Sequence[str]) -> list[tuple[Mode, ...]]:
        """Return every combination of modes for these operations."""
        return list(product(self.modes, repeat=len(names)))

    def explore(self, explorer: Explorer, names: Sequence[str], modes: Sequence[Mode], **options: Any) -> Explored:
        """Explore the named operations, each in its mode."""
        return explorer.explore(
            [self._operation(name, mode) for name, mode in zip(names, modes, strict=True)],
            self.check,
            prepare=self.prepare,
            collections=self.collections,
            between=self.between,
            problems=self._found.find_problems,
            settle=self._settle,
            later=self._later,
            serial=not set(names) & set(self.composed),
            gives_up=(*GIVES_UP, *self.excused),
            ignored=self.ignored,
            crashes=self.crashes,
            **options,
        )

    def _operation(self, name: str, mode: Mode) -> Operation:
        alone = self._alone.setdefault(name, self.in_mode(name, "native"))
        return Operation(self.in_mode(name, mode), f"{name}, {mode}", alone=alone)

    def in_mode(self, name: str, mode: Mode) -> Callable[[Db, Any], object]:
        """Return the named operation as the explorer calls it."""
        act = self.operations[name]
        return lambda db, state: act(db, mode, state)

    def _later(self, db: Db) -> None:
        """Recover runs of a dead operation while another one waits for it."""
        self.age(db)
        Transactions(db).recover()

    def _settle(self, db: Db) -> None:
        """Do what the passing time and the jobs do after a crash."""
        recover(db)
        self.age(db)
        for job in self._found.jobs:
            job.run(db)
        recover(db)
