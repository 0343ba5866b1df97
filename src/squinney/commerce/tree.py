"""What changes of the category tree share: one transaction at a time, and slugs."""

from __future__ import annotations

import random
import re
import time
import unicodedata
from collections.abc import Callable
from typing import TypeVar

from pymongo.client_session import ClientSession
from pymongo.errors import ConnectionFailure, DuplicateKeyError, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from squinney.commerce.errors import SlugTaken
from squinney.errors import Unavailable
from squinney.mongo.schema import Db
from squinney.patterns.transactions import Busy

T = TypeVar("T")

TREE_ID = "categories"


def slug_for(name: str) -> str:
    """A slug made of the name's letters and digits; empty where it has none that a URL likes."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:100].strip("-")


def change_tree(db: Db, change: Callable[[ClientSession], T], *, seconds: float = 30) -> T:
    """Run `change` in a transaction that first increments the tree's own document.

    Two snapshot transactions could otherwise each see a tree without the other's move, and put A under B and B under
    A. With it, one of two that overlap is turned away by the server and tried again on what the other left.

    Raises: what `change` raises; `Busy`; `Unavailable` where the commit's outcome is unknown.
    """
    until = time.monotonic() + seconds
    with db.client.start_session() as session:
        for attempt in range(1_000_000):
            try:
                return _attempt(db, session, change)
            except DuplicateKeyError as error:  # the slug's index is the only unique one
                raise SlugTaken("another category has this slug") from error
            except PyMongoError as error:
                if error.timeout or not error.has_error_label("TransientTransactionError"):
                    raise
                if time.monotonic() >= until:
                    if isinstance(error, ConnectionFailure):
                        raise
                    raise Busy("the category tree stayed in use; try again") from error
            time.sleep(random.uniform(0, min(0.1, 0.002 * 2 ** min(attempt, 6))))
    raise AssertionError("unreachable")


def _attempt(db: Db, session: ClientSession, change: Callable[[ClientSession], T]) -> T:
    session.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))
    try:
        db["category_tree"].update_one({"_id": TREE_ID}, {"$inc": {"version": 1}}, upsert=True, session=session)
        result = change(session)
    except BaseException:
        session.abort_transaction()
        raise
    _commit(session)
    return result


def _commit(session: ClientSession) -> None:
    while True:
        try:
            session.commit_transaction()
            return
        except PyMongoError as error:
            if not error.has_error_label("UnknownTransactionCommitResult"):
                raise
            if error.timeout:
                raise Unavailable("the commit was sent, but no answer came in time", outcome_unknown=True) from error
            time.sleep(0.02)
