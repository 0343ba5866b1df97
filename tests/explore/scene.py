"""Scenes to explore: prepared documents, and operations that change the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

from squinney import assembly
from squinney.mongo.schema import Collection, Db
from squinney.system import System
from squinney.testing import Explored, Explorer, Operation
from squinney.testing.explorer import GIVES_UP

Act = Callable[[Db, Any], object]


@dataclass(frozen=True)
class Scene:
    """A prepared system and the operations that run concurrently on it.

    `composed` are operations of several runs or transactions, such as a checkout, which pays in between. They must keep
    the system's invariants; all others are also compared with their serial orders. `excused` are errors that say that
    another operation interfered; the operation must then have changed nothing. `crashes`, also the number of lost
    replies, is 0 for operations whose docstrings say what a crash leaves, if the crash sweep checks that and
    the serial orders never leave it. `also` are collections of another system.
    """

    name: str
    system: str
    prepare: Callable[[Db], Any]
    operations: Mapping[str, Act]
    composed: Sequence[str] = ()
    excused: tuple[type[Exception], ...] = ()
    ignored: Sequence[str] = ()
    crashes: int = 1
    check: Callable[[Db, Any], object] = lambda db, state: None
    age: Callable[[Db], object] = lambda db: None
    between: Sequence[Callable[[Db], object]] = field(default_factory=list)
    also: Sequence[Collection] = ()

    @property
    def collections(self) -> list[Collection]:
        """The collections of its database."""
        return [*assembly.CORE_COLLECTIONS, *self._found.collections, *self.also]

    @property
    def _found(self) -> System:
        """The `System` that `system` names: one of Squinney's by its name, or another by its package."""
        return assembly.system_named(self.system) or assembly.system_in(self.system)

    def pairs(self) -> list[tuple[str, ...]]:
        """Return every pair of operations, also of one with itself."""
        return list(combinations_with_replacement(self.operations, 2))

    def play(self, explore: Explorer, names: Sequence[str], **options: Any) -> Explored:
        """Explore the named operations."""
        return explore(
            [Operation(self.operations[name], name) for name in names],
            self.check,
            prepare=self.prepare,
            collections=self.collections,
            between=self.between,
            problems=self._found.find_problems,
            settle=self._settle,
            later=self.age,
            serial=not set(names) & set(self.composed),
            gives_up=(*GIVES_UP, *self.excused),
            ignored=self.ignored,
            crashes=self.crashes,
            threads_in_turn=True,
            **options,
        )

    def _settle(self, db: Db) -> None:
        """Do what the passing time and the jobs do after a crash."""
        self.age(db)
        for job in self._found.jobs:
            job.run(db)
