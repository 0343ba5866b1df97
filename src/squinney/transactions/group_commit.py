"""Group commit: native runs that wait for each other in one process go out as one MongoDB transaction.

A few transactions are in flight at a time. A run that finds few others in flight, and its documents in none of them,
goes at once and alone. Others queue. When a transaction ends, or as many wait as are in flight, the first in the queue
sends all that can go with it: every run's steps in the order of the queue, one commit for all. Steps touch one document
each, and in each collection they happen in that order, so the outcome is that of the runs one after the other, and a
run may rest on what the one before it did.

It is a courtesy only. What is right is decided by guards and transactions: whatever fails in a group is tried again by
each run alone, whoever has waited for long goes ahead, and other processes need not know of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any
from weakref import WeakValueDictionary

import bson
import pymongo
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError

from squinney.errors import Unavailable
from squinney.mongo.connect import seconds_left
from squinney.mongo.schema import Db, Document
from squinney.transactions import attempts

SLOTS = 3  # transactions in flight at a time; measured, see docs/decisions/group-commit.md
MOST_WRITES = 100
MOST_BYTES = 500_000
LEAST_SECONDS = 2.0  # of its own time; who has less left goes alone, for a group lasts no longer than each of its runs
COMPANY_SECONDS = 0.1  # how long a run waits for others to come, where it could go; several times what a group takes
LONGEST_WAIT_SECONDS = 5.0
SHARE_FOR_WAITING = 0.5  # of the time that is left; the rest is for doing it

Write = tuple[str, str, Document]  # collection, verb, and an element of the command


class Apart(Exception):
    """The group did not go through, and nothing of it happened: the run is to be tried alone."""


@dataclass(eq=False, slots=True)
class Run:
    """What one run writes, and where; the key's record apart."""

    record: Document | None
    writes: Sequence[Write]
    documents: frozenset[Any]
    alone: bool = False
    came_at: float = 0
    ends_at: float = 0
    size: int = 0
    group: Group | None = None
    told: Event = field(init=False)  # to one that waits: that it leads its group, or that its group ended


@dataclass(eq=False, slots=True)
class Group:
    """Runs in one transaction, of which the first sends it."""

    runs: list[Run]
    writes: int = 0
    size: int = 0
    commit_sent: bool = False
    done: bool = False
    error: Exception | None = None

    @property
    def documents(self) -> set[Any]:
        """Those of all its runs."""
        return set().union(*(run.documents for run in self.runs))

    @property
    def seconds_left(self) -> float:
        """It lasts no longer than any of its runs may; never 0, which the driver takes for no limit."""
        return max(0.001, min(run.ends_at for run in self.runs) - time.monotonic())

    def has_room_for(self, run: Run) -> bool:
        """Whether the run can go with the others."""
        if not self.runs:
            return True
        soon = time.monotonic() + LEAST_SECONDS
        if any(one.alone or one.ends_at < soon for one in (self.runs[0], run)):
            return False
        return self.writes + len(run.writes) <= MOST_WRITES and self.size + run.size <= MOST_BYTES

    def add(self, run: Run) -> None:
        """One more."""
        self.runs.append(run)
        self.writes += len(run.writes)
        self.size += run.size


Send = Callable[[Sequence[Run], ClientSession], None]


class Queue:
    """The native runs of this process on one database."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._lock = Lock()
        self._free = SLOTS
        self._runs_in_flight = 0
        self._in_flight: set[Any] = set()
        self._waiting: list[Run] = []

    def commit(self, run: Run, send: Send) -> None:
        """Send the run's writes in a transaction and commit it, alone or with others.

        Raises: `Apart`; what `send` and the commit raise; `Unavailable` where another sent the commit and no answer
        came.
        """
        run.group, run.came_at = None, time.monotonic()
        run.ends_at = run.came_at + seconds_left()
        if not may_group():
            self._lead(Group([run]), send)
            return
        try:
            self._enter(run)
            group = run.group or Group([run])
            if group.runs[0] is run:
                self._lead(group, send)
            else:
                _tell(group)
        finally:
            self._leave(run)

    def _enter(self, run: Run) -> None:
        """Come back when the run leads its group, or its group ended, or it has waited long enough."""
        with self._lock:
            if self._may_start([run]) and not self._waiting and self._in_flight.isdisjoint(run.documents):
                self._start(Group([run]))
                return
        run.told = Event()
        run.size = sum(len(bson.encode(write, codec_options=self._db.codec_options)) for _, _, write in run.writes)
        with self._lock:
            self._waiting.append(run)
            self._start_those_who_can()
        self._wait(run)

    def _may_start(self, waiting: Sequence[Run]) -> bool:
        """Whether a transaction is to start for them. Beside many runs in flight, a few wait a moment for more to come:
        a transaction takes the server and the driver as long as several runs in it.
        """
        if not self._free or not waiting:
            return False
        if self._runs_in_flight < SLOTS or len(waiting) >= self._runs_in_flight:
            return True
        return waiting[0].came_at + COMPANY_SECONDS <= time.monotonic()

    def _start_those_who_can(self) -> None:
        while self._may_start(self._waiting) and (group := self._next()).runs:
            self._start(group)
            group.runs[0].told.set()

    def _start(self, group: Group) -> None:
        for run in group.runs:
            run.group = group
        self._free -= 1
        self._runs_in_flight += len(group.runs)
        self._in_flight |= group.documents

    def _next(self) -> Group:
        """Take from the queue those that go together next. Who must stay holds back those who come after it to the
        same documents, so that nobody waits for ever.
        """
        group = Group([])
        stay: list[Run] = []
        taken = set(self._in_flight)
        for run in self._waiting:
            if taken.isdisjoint(run.documents) and group.has_room_for(run):
                group.add(run)
            else:
                stay.append(run)
                taken |= run.documents
        self._waiting = stay
        return group

    def _wait(self, run: Run) -> None:
        """Until it leads or its group ended, for company a moment only: one slow group is not to hold up all others; or
        so long that it goes ahead by itself.
        """
        longest = max(0.0, min(LONGEST_WAIT_SECONDS, seconds_left() * SHARE_FOR_WAITING))
        if run.told.wait(min(COMPANY_SECONDS, longest)):
            return
        with self._lock:
            self._start_those_who_can()
        if run.told.wait(max(0.0, longest - COMPANY_SECONDS)):
            return
        with self._lock:
            if run.group is None:
                self._waiting.remove(run)
                return
        if not run.told.wait(max(0.0, seconds_left())):
            raise Unavailable("the commit of a group got no answer in time", outcome_unknown=True)

    def _lead(self, group: Group, send: Send) -> None:
        def send_all(session: ClientSession) -> None:
            send(group.runs, session)
            group.commit_sent = True

        try:
            with pymongo.timeout(group.seconds_left), self._db.client.start_session() as session:
                attempts.attempt(session, send_all)
            group.done = True
        except Exception as error:
            group.error = error
            if len(group.runs) == 1 or group.commit_sent:
                raise
            _tell(group)

    def _leave(self, run: Run) -> None:
        """However it ended, by an interrupt too: nobody is left waiting for it."""
        with self._lock:
            if run.group is None:
                self._waiting = [other for other in self._waiting if other is not run]
                return
            first, *others = run.group.runs
            if first is not run:
                return
            self._free += 1
            self._runs_in_flight -= len(run.group.runs)
            self._in_flight -= run.group.documents
            self._start_those_who_can()
        for other in others:
            other.told.set()


def _tell(group: Group) -> None:
    """Raise what the end of the group is to each of its runs, if it is not done."""
    error = group.error
    if group.done:
        return
    if isinstance(error, PyMongoError) and attempts.may_try_again(error):
        raise error
    if group.commit_sent:
        raise Unavailable("the commit was sent with others', but no answer came", outcome_unknown=True) from error
    raise Apart from error


def may_group() -> bool:
    """The explorer says no, whose operations are like processes of their own."""
    return True


_QUEUES: WeakValueDictionary[tuple[int, str], Queue] = WeakValueDictionary()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_QUEUES.clear)  # a lock that another thread held would be held for ever


def queue_of(db: Db) -> Queue:
    """The queue of the database in this process, by this client; there is one while somebody uses it."""
    return _QUEUES.setdefault((id(db.client), db.name), Queue(db))
