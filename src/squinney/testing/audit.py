"""What an operation costs: the round trips it takes, and whether every query has an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db
from squinney.testing.commands import Commands, watched
from squinney.testing.plans import explainable, explained_fault, shape_of


class Audit:
    """A database through a client of its own that is watched."""

    def __init__(self, db: Db, unwatched: Db, commands: Commands) -> None:
        self.db = db
        self._unwatched = unwatched
        self._commands = commands
        self._counted = 0

    def round_trips(self) -> list[str]:
        """The commands sent since this was last asked."""
        names = self._commands.names[self._counted :]
        self._counted += len(names)
        return names

    def slow_queries(self) -> list[str]:
        """What was asked without an index: collection scans, sorts in memory, ten documents read for one returned.

        Each shape of command is explained on the data that is there now, so ask while that is still what it was.
        """
        found: dict[str, str] = {}
        for name, command in list(self._commands.sent):
            for one in explainable(name, command):
                shape = shape_of(name, one)
                if shape not in found:
                    found[shape] = explained_fault(self._unwatched, one)
        return [f"{fault}: {shape}" for shape, fault in found.items() if fault]


@contextmanager
def audited(uri: str, name: str) -> Iterator[Audit]:
    """The database of that name, watched."""
    with watched(uri, name) as (db, commands), client_for(uri) as unwatched:
        yield Audit(db, unwatched[name], commands)
