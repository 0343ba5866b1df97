"""Single MongoDB transactions: an attempt, its commit, and the pause before the next attempt."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from typing import TypeVar

import pymongo
from pymongo import ReadPreference
from pymongo.client_session import ClientSession
from pymongo.errors import ConnectionFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from squinney.errors import Unavailable
from squinney.mongo.deadlines import operation, seconds_left
from squinney.mongo.failures import ended_by_the_server, was_interrupted
from squinney.mongo.pinned import MAJORITY_WRITE
from squinney.mongo.schema import Db
from squinney.transactions.abandoned import end_what_blocks
from squinney.transactions.errors import Busy

T = TypeVar("T")
_counting = threading.Lock()
_counts = Counter[str]()

SNAPSHOT = ReadConcern("snapshot")
ABORT_SECONDS = 1
LOOK_AFTER_SECONDS = 1.0  # of conflicts; a live run holds its documents for milliseconds
SHARE_FOR_WAITING = 0.8  # of an operation's time; the rest is for releasing its documents and raising the error


def in_transaction(db: Db, work: Callable[[ClientSession], T], *, seconds: float = 30) -> T:
    """Run `work` in one transaction; retry while the server asks for it and time is left.

    For what guarded steps cannot express: an update of many documents, or a decision based on documents just read.

    Atomic: the transaction's commit.
    After a crash: nothing remains.
    Raises: whatever `work` raises; `Busy`; `Unavailable`, whose `outcome_unknown` is true if the commit got no reply.
    """
    with operation(seconds), db.client.start_session() as session:
        tries = Tries(seconds_left() * SHARE_FOR_WAITING, among=db)
        while True:
            try:
                return attempt(session, work)
            except PyMongoError as error:
                if not may_try_again(error):
                    raise
                tries.pause(error)


def may_try_again(error: PyMongoError) -> bool:
    """Return whether a transaction may be retried: it had a conflict or lost the server, and nothing was written."""
    if error.timeout:
        return False
    # guard: a transaction that the server ended is retried
    # guard: a statement whose session was killed is no refusal
    return error.has_error_label("TransientTransactionError") or ended_by_the_server(error) or was_interrupted(error)


def attempt(session: ClientSession, work: Callable[[ClientSession], T]) -> T:
    """Start a transaction, run `work` and commit; an exception in `work` aborts the transaction."""
    session.start_transaction(SNAPSHOT, MAJORITY_WRITE, ReadPreference.PRIMARY)
    try:
        result = work(session)
    except BaseException:
        # guard: a transaction that ran out of time is aborted
        Context().run(_abort, session)
        raise
    _commit(session)
    return result


def _abort(session: ClientSession) -> None:
    """Abort with a time limit of its own: without an abort the server would hold the documents for a minute."""
    with pymongo.timeout(ABORT_SECONDS):
        session.abort_transaction()


def _commit(session: ClientSession) -> None:
    """Commit, and repeat the commit while its outcome is unknown; the caller's `pymongo.timeout` ends this."""
    while True:
        try:
            session.commit_transaction()
            return
        except PyMongoError as error:
            interrupted = was_interrupted(error)  # the reply does not say whether before or after the commit
            # guard: a commit whose session was killed is repeated
            if may_try_again(error) and not interrupted:
                raise
            # guard: a rejected commit has an unknown outcome
            if error.timeout or not (interrupted or error.has_error_label("UnknownTransactionCommitResult")):
                raise Unavailable("the commit was sent, but not confirmed in time", outcome_unknown=True) from error
            time.sleep(0.02)


def retries() -> Counter[str]:
    """Return how often this process has `retried` or `given up`, because other operations were in the way."""
    with _counting:
        return _counts.copy()


def _count(what: str) -> None:
    with _counting:
        _counts[what] += 1


class Tries:
    """Retries, up to a time, of what other operations block: call `pause` between two tries.

    What a dead process left open in the database `among` is ended after a second.
    """

    def __init__(self, seconds: float, *, what: str = "the documents", among: Db | None = None) -> None:
        self._began = time.monotonic()
        self._until = self._began + seconds
        self._what = what
        self._among = among
        self._number = 0

    def pause(self, cause: Exception | None = None) -> None:
        """Sleep for a random time that grows with each call, so that competing operations spread out.

        Raises: `Busy` if no time is left; the cause itself if that is a failure of the server.
        """
        if time.monotonic() >= self._until:
            if isinstance(cause, ConnectionFailure) or (isinstance(cause, PyMongoError) and ended_by_the_server(cause)):
                raise cause
            _count("given up")
            raise Busy(f"{self._what} stayed in use by other operations; try again") from cause
        _count("retried")
        if self._among is not None and time.monotonic() >= self._began + LOOK_AFTER_SECONDS:
            # guard: a second of conflicts makes a run look for dead processes
            end_what_blocks(self._among)
        time.sleep(random.uniform(0, min(0.1, 0.001 * 2**self._number)))
        self._number = min(self._number + 1, 10)
