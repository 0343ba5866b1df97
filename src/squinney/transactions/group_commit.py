"""Group commit: runs that wait for each other in one process share one MongoDB transaction.

At most a few transactions are in flight at a time. A run starts at once and alone if few other runs are in flight and
none of them has its documents. Other runs queue. When a transaction ends, or as many runs wait as are in flight, the
first run in the queue sends all runs that can go with it: the steps of every run in the order of the queue, and one
commit for all. Each step touches one document, and in each collection the steps are applied in that order. So the
outcome is that of the runs one after the other, and a run may depend on what the run before it did.

Grouping only saves work. Guards and transactions ensure correctness: a run that does not match is taken out of its
group, which goes on without it; if a group fails otherwise, each of its runs is retried alone. A run that has waited
for long goes ahead. Other processes are not involved.
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
from squinney.mongo.deadlines import seconds_left
from squinney.mongo.schema import Db, Document
from squinney.transactions import attempts
from squinney.transactions.steps import Step

SLOTS = 3  # transactions in flight at a time; measured, see docs/decisions/group-commit.md
MAX_WRITES = 100
MAX_BYTES = 500_000
MAX_SUSPECTS = 10_000
MIN_SECONDS = 2.0  # a run with less time left goes alone, because a group has the time of its most urgent run
COMPANY_SECONDS = 0.1  # how long a run that could start waits for others to join; several times what a group takes
MAX_WAIT_SECONDS = 5.0
SHARE_FOR_WAITING = 0.5  # of the time that is left; the rest is for the transaction


class Alone(Exception):
    """The run must be retried alone; nothing was written."""


class TakenOut(Exception):
    """Some runs of a group do not match; carries these. Nothing was written."""


@dataclass(eq=False, slots=True)
class Run:
    """One run: its steps, each with what it sends, and the documents that these touch."""

    writes: Sequence[tuple[Step, Document]]
    documents: frozenset[Any]
    alone: bool = False  # it was taken out of its group, and goes without others from now on
    unmatched: bool = False  # one of its steps did not match, so a read must tell which step refuses
    came_at: float = 0
    ends_at: float = 0
    size: int = 0
    group: Group | None = None
    notified: Event = field(init=False)  # set when a waiting run leads its group, or when its group has ended


@dataclass(eq=False, slots=True)
class Group:
    """Runs that share one transaction; the first of them sends it, even after it was taken out itself."""

    runs: list[Run]
    commit_sent: bool = False
    done: bool = False
    error: Exception | None = None

    @property
    def documents(self) -> set[Any]:
        """The documents of all its runs."""
        return set().union(*(run.documents for run in self.runs))

    @property
    def seconds_left(self) -> float:
        """The time of its most urgent run; never 0, which to the driver means no limit."""
        # guard: a group has the time limit of its most urgent run
        return max(0.001, min(run.ends_at for run in self.runs) - time.monotonic())

    def has_room_for(self, run: Run) -> bool:
        """Return whether the run can join the group."""
        if not self.runs:
            return True
        soon = time.monotonic() + MIN_SECONDS
        # guard: a run of a refused group is retried alone
        # guard: a run with little time left goes alone
        if any(member.alone or member.ends_at < soon for member in (self.runs[0], run)):
            return False
        together = [*self.runs, run]
        # guard: a group has a limit of writes
        fits = sum(len(member.writes) for member in together) <= MAX_WRITES
        # guard: a group has a limit of bytes
        return fits and sum(member.size for member in together) <= MAX_BYTES


Send = Callable[[Sequence[Run], ClientSession], None]


class PendingRuns:
    """The runs of this process on one database."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._lock = Lock()
        self._free = SLOTS
        self._runs_in_flight = 0
        self._in_flight: set[Any] = set()
        self._waiting: list[Run] = []
        self._suspects: set[Any] = set()

    def suspect(self, document: Any) -> None:
        """Note a document that has just refused a run: it is a suspect until a run on it succeeds."""
        with self._lock:
            if len(self._suspects) >= MAX_SUSPECTS:
                # guard: the number of suspects is limited
                self._suspects.clear()
            self._suspects.add(document)

    def has_suspect(self, run: Run) -> bool:
        """Return whether one of the run's documents has just refused a run."""
        with self._lock:
            return not self._suspects.isdisjoint(run.documents)

    def commit(self, run: Run, send: Send) -> None:
        """Send the run's writes in a transaction and commit it, alone or in a group.

        Raises: `Alone`; whatever `send` and the commit raise; `Unavailable` if the group's leader sent the commit and
        got no reply.
        """
        run.group, run.came_at = None, time.monotonic()
        run.ends_at = run.came_at + seconds_left()
        try:
            self._enter(run)
            group = run.group or Group([run])
            if group.runs[0] is run:
                self._lead(group, send)
            else:
                _raise_error_of(group, run)
        # guard: a leader that dies frees its slot
        finally:
            self._leave(run)
        with self._lock:
            # guard: a document is no suspect when a run on it has passed
            self._suspects -= run.documents

    def _enter(self, run: Run) -> None:
        """Return when the run leads its group, when its group has ended, or when it has waited long enough."""
        with self._lock:
            # guard: a run starts at once only if no run in flight has its documents
            if self._may_start([run]) and not self._waiting and self._in_flight.isdisjoint(run.documents):
                self._start(Group([run]))
                return
        run.notified = Event()
        run.size = sum(len(bson.encode(write, codec_options=self._db.codec_options)) for _, write in run.writes)
        with self._lock:
            # guard: runs start in the order of the queue
            self._waiting.append(run)
            self._start_groups()
        self._wait(run)

    def _may_start(self, waiting: Sequence[Run]) -> bool:
        """Return whether a transaction should start for the waiting runs.

        While many runs are in flight, a few waiting runs wait a moment for more to join: one transaction costs the
        server and the driver as much as several runs in it.
        """
        if not self._free or not waiting:
            return False
        # guard: a run waits for others to join while many are in flight
        if self._runs_in_flight < SLOTS or len(waiting) >= self._runs_in_flight:
            return True
        # guard: a run waits only briefly for others to join
        return waiting[0].came_at + COMPANY_SECONDS <= time.monotonic()

    def _start_groups(self) -> None:
        while self._may_start(self._waiting) and (group := self._next_group()).runs:
            self._start(group)
            group.runs[0].notified.set()

    def _start(self, group: Group) -> None:
        for run in group.runs:
            run.group = group
        self._free -= 1
        self._runs_in_flight += len(group.runs)
        self._in_flight |= group.documents

    def _next_group(self) -> Group:
        """Remove the runs of the next group from the queue.

        A run that must stay also keeps later runs on the same documents in the queue, so that they never overtake it.
        """
        group = Group([])
        stay: list[Run] = []
        # guard: runs in flight share no document
        taken = set(self._in_flight)
        for run in self._waiting:
            if taken.isdisjoint(run.documents) and group.has_room_for(run):
                group.runs.append(run)
            else:
                stay.append(run)
                # guard: a run never overtakes one that waits for the same document
                taken |= run.documents
        self._waiting = stay
        return group

    def _wait(self, run: Run) -> None:
        """Wait until the run leads its group or its group has ended, or until the longest wait is over.

        After a moment it starts waiting groups itself, so that one slow group does not delay all others. After the
        longest wait it leaves the queue, and goes ahead alone.
        """
        # guard: waiting leaves time for the transaction
        # guard: a run that has waited for long goes ahead
        longest = max(0.0, min(MAX_WAIT_SECONDS, seconds_left() * SHARE_FOR_WAITING))
        if run.notified.wait(min(COMPANY_SECONDS, longest)):
            return
        with self._lock:
            self._start_groups()
        if run.notified.wait(max(0.0, longest - COMPANY_SECONDS)):
            return
        with self._lock:
            if run.group is None:
                self._waiting.remove(run)
                return
        if not run.notified.wait(max(0.0, seconds_left())):
            raise Unavailable("the commit of a group got no reply in time", outcome_unknown=True)

    def _lead(self, group: Group, send: Send) -> None:
        try:
            with pymongo.timeout(group.seconds_left), self._db.client.start_session() as session:
                self._send_without_refused(group, send, session)
            group.done = True
        except Exception as error:
            group.error = error
            if len(group.runs) == 1 or (group.commit_sent and not group.runs[0].alone):
                raise
        _raise_error_of(group, group.runs[0])

    def _send_without_refused(self, group: Group, send: Send, session: ClientSession) -> None:
        """Send the group's runs; as often as some do not match, notify these and send the others."""

        def send_all(session: ClientSession) -> None:
            send(going, session)
            group.commit_sent = True

        going = group.runs
        while going:
            try:
                attempts.attempt(session, send_all)
                return
            except TakenOut as refused:
                if len(group.runs) == 1:
                    raise Alone from None
                for run in refused.args[0]:
                    run.alone = True
                    if run is not group.runs[0]:
                        run.notified.set()
                going = [run for run in going if not run.alone]

    def _leave(self, run: Run) -> None:
        """Release the run's slot and notify its group, however the run ended, even by an interrupt."""
        with self._lock:
            if run.group is None:
                self._waiting = [other for other in self._waiting if other is not run]
                return
            first, *others = run.group.runs
            if first is not run:
                return
            others = [other for other in others if not other.alone]  # these have been notified
            self._free += 1
            self._runs_in_flight -= len(run.group.runs)
            self._in_flight -= run.group.documents
            self._start_groups()
        # guard, 2 lines: a leader that dies notifies its group
        for other in others:
            other.notified.set()


def _raise_error_of(group: Group, run: Run) -> None:
    """Raise the error that a run of the group gets; return if it was committed."""
    error = group.error
    # guard, 2 lines: a run that left its group does not share its outcome
    if run.alone and len(group.runs) > 1:
        raise Alone
    if group.done:
        return
    # guard, 2 lines: a group with a conflict is retried
    if isinstance(error, PyMongoError) and attempts.may_try_again(error):
        raise error
    # guard: a group's commit without a reply has an unknown outcome
    if group.commit_sent:
        raise Unavailable("the commit of the group was sent, but no reply came", outcome_unknown=True) from error
    raise Alone from error


_PENDING: WeakValueDictionary[tuple[int, str], PendingRuns] = WeakValueDictionary()
if hasattr(os, "register_at_fork"):
    # guard: a forked child starts without pending runs
    os.register_at_fork(after_in_child=_PENDING.clear)  # a lock held by another thread would stay locked in the child


def pending_runs_of(db: Db) -> PendingRuns:
    """Return the queue of this client and database in this process; it exists while a run uses it.

    The explorer replaces this function, because its operations stand for separate processes.
    """
    return _PENDING.setdefault((id(db.client), db.name), PendingRuns(db))
