"""Threads of one process whose native runs meet in a document go there one after another.

Two native transactions that meet in one document cost the later one all it has sent, and a pause. Who waits for a
moment in front of the door sends it once. Only documents in which runs have just met have a queue, so that others pay
nothing. Two-phase runs need none: their steps commute, or hold the document by a lock of their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from squinney.mongo.schema import Db
from squinney.transactions.fair_locks import FairLocks
from squinney.transactions.steps import Step, identity

HOT_SECONDS = 0.2  # after the last meeting; a line keeps it hot
MOST_NAMES = 10_000

Name = tuple[str, str, bytes]


class Contention:
    """Where runs have met of late, and the queues there."""

    def __init__(self) -> None:
        self._fair_locks = FairLocks()
        self._hot: dict[Name, float] = {}

    def met(self, names: Sequence[Name]) -> None:
        """A run was turned away in one of these documents."""
        now = time.monotonic()
        if len(self._hot) > MOST_NAMES:
            self._hot = {name: until for name, until in self._hot.copy().items() if until > now}
        self._hot.update(dict.fromkeys(names, now + HOT_SECONDS))

    @contextmanager
    def in_turn(self, names: Sequence[Name]) -> Iterator[None]:
        """Inside, no other run of this process is in those of the documents where runs have met of late."""
        now = time.monotonic()
        hot = [name for name in names if self._hot.get(name, 0) > now]
        with ExitStack() as queues:
            crowded = [name for name in hot if queues.enter_context(self._fair_locks.of(name))]
            self.met(crowded)
            yield


def names_of(db: Db, steps: Sequence[Step]) -> list[Name]:
    """The documents that the steps change, in the one order in which all queue for them."""
    return sorted((db.name, *identity(step)) for step in steps if step.insert is None)


CONTENTION = Contention()
