"""Measure what an operation costs: its round trips, and whether an index serves each of its queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db
from squinney.testing.plans import Command, collections_read, explainable, plan_problem, shape_of
from squinney.testing.server_commands import Commands, watched


class Audit:
    """A database, and a record of every command that `db` sends to the server."""

    def __init__(self, db: Db, unwatched: Db, commands: Commands) -> None:
        self.db = db
        self._unwatched = unwatched
        self._commands = commands
        self._reported = 0

    def round_trips(self) -> list[str]:
        """Return the names of the commands sent since the last call of this method."""
        names = self._commands.names[self._reported :]
        self._reported += len(names)
        return names

    def slow_queries(self) -> list[str]:
        """List the commands that scan a collection, sort in memory, or read over ten documents for each one returned.

        A command on a collection that does not exist, perhaps because its name is misspelt, is listed too: without
        documents every plan is good. Each shape of command is explained on the current data, so call this method
        before the data changes.
        """
        existing = set(self._unwatched.list_collection_names())
        problems: dict[str, str] = {}
        for name, command in list(self._commands.sent):
            for part in explainable(name, command):
                shape = shape_of(name, part)
                if shape not in problems:
                    problems[shape] = _missing(part, existing) or plan_problem(self._unwatched, part)
        return [f"{problem}: {shape}" for shape, problem in problems.items() if problem]


def _missing(command: Command, existing: set[str]) -> str:
    # guard: a misspelt collection is reported
    missing = sorted(collections_read(command) - existing)
    return f"no such collection: {', '.join(missing)}" if missing else ""


@contextmanager
def audited(uri: str, name: str) -> Iterator[Audit]:
    """Open the database `name` with a new client whose commands are recorded."""
    with watched(uri, name) as (db, commands), client_for(uri) as unwatched:
        yield Audit(db, unwatched[name], commands)
