"""One MongoDB transaction: an attempt, its commit, and the pause before the next."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import TypeVar

import pymongo
from pymongo import ReadPreference
from pymongo.client_session import ClientSession
from pymongo.errors import ConnectionFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from squinney.errors import Unavailable
from squinney.mongo.connect import ended_by_the_server, operation, seconds_left
from squinney.mongo.pinned import MAJORITY_WRITE
from squinney.mongo.schema import Db
from squinney.transactions.errors import Busy

T = TypeVar("T")

SNAPSHOT = ReadConcern("snapshot")
ABORT_SECONDS = 1
SHARE_FOR_WAITING = 0.8  # of an operation's time; the rest is for undoing what it holds and saying so


def in_transaction(db: Db, work: Callable[[ClientSession], T], *, seconds: float = 30) -> T:
    """Do `work` in one transaction, again while the server asks for it and time is left.

    For what guarded steps cannot say: an update of many documents, or a decision by what was read.

    Atomic: the transaction's commit.
    After a crash: nothing.
    Raises: what `work` raises; `Busy`; `Unavailable`, where `outcome_unknown` says that the commit got no answer.
    """
    with operation(seconds), db.client.start_session() as session:
        tries = Tries(seconds_left() * SHARE_FOR_WAITING)
        while True:
            try:
                return attempt(session, work)
            except PyMongoError as error:
                if not may_try_again(error):
                    raise
                tries.pause(error)


def may_try_again(error: PyMongoError) -> bool:
    """Whether the transaction met another, or a server that went away or ended it, and nothing of it happened."""
    if error.timeout:
        return False
    return error.has_error_label("TransientTransactionError") or ended_by_the_server(error)


def attempt(session: ClientSession, work: Callable[[ClientSession], T]) -> T:
    """Begin, do the work, and commit; what `work` raises aborts it."""
    session.start_transaction(SNAPSHOT, MAJORITY_WRITE, ReadPreference.PRIMARY)
    try:
        result = work(session)
    except BaseException:
        Context().run(_abort, session)
        raise
    _commit(session)
    return result


class _TakenBack(Exception):
    """The rehearsal went well, and ends."""


def rehearse(db: Db, work: Callable[[ClientSession], object]) -> None:
    """As `in_transaction`, but take the work back: whether the server would do it."""

    def and_take_back(session: ClientSession) -> None:
        work(session)
        raise _TakenBack

    with suppress(_TakenBack):
        in_transaction(db, and_take_back)


def _abort(session: ClientSession) -> None:
    """In a context of its own, in which our time is not over: else the server would hold the documents for a minute."""
    with pymongo.timeout(ABORT_SECONDS):
        session.abort_transaction()


def _commit(session: ClientSession) -> None:
    """Commit, and ask again while the answer is unknown; `pymongo.timeout` around us ends it."""
    while True:
        try:
            session.commit_transaction()
            return
        except PyMongoError as error:
            if may_try_again(error):
                raise
            if error.timeout or not error.has_error_label("UnknownTransactionCommitResult"):
                raise Unavailable("the commit was sent, but not confirmed in time", outcome_unknown=True) from error
            time.sleep(0.02)


class Tries:
    """For repeating what others were in the way of, up to a time: call `pause` between two tries."""

    def __init__(self, seconds: float, *, what: str = "the documents") -> None:
        self._until = time.monotonic() + seconds
        self._what = what
        self._number = 0

    def pause(self, cause: Exception | None = None) -> None:
        """Wait, a little longer each time, at random, so that contenders part.

        Raises: `Busy` where no time is left; the cause, where it was the server.
        """
        if time.monotonic() >= self._until:
            if isinstance(cause, ConnectionFailure) or (isinstance(cause, PyMongoError) and ended_by_the_server(cause)):
                raise cause
            raise Busy(f"{self._what} stayed in use by other operations; try again") from cause
        time.sleep(random.uniform(0, min(0.1, 0.001 * 2**self._number)))
        self._number = min(self._number + 1, 10)
