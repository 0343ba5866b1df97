"""One native transaction per idempotency key, for what guarded steps cannot say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from bson import ObjectId
from pymongo.client_session import ClientSession

from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import native, records
from squinney.transactions.attempts import in_transaction
from squinney.transactions.records import Key

T = TypeVar("T")


def once(
    db: Db,
    kind: str,
    work: Callable[[ClientSession], T],
    *,
    key: str | Key | None,
    arguments: Mapping[str, Any],
    seconds: float = 30,
) -> T:
    """As `in_transaction`, once per `key` where one is given: a repeat with the same `arguments` gets
    what `work` returned first.

    Atomic: the transaction's commit, with the key's record in it. Of two at once, the server turns one away, which
    finds the other's record when it is tried again.
    After a crash: nothing.
    Raises: as `in_transaction`; `KeyReused`; `WriteRefused` where the server refuses the key's record.
    """
    db = pinned(db)
    found = records.key_record(kind, key, arguments)
    if found is None:
        return in_transaction(db, work, seconds=seconds)

    def keyed(session: ClientSession) -> T:
        if earlier := records.earlier_outcome(db, found, session):
            return cast(T, earlier.result)
        result = work(session)
        record = records.finished(kind, ObjectId(), found, result, records.KEEP_KEYS_SECONDS)
        native.insert_records(db, [record], session)
        return result

    return in_transaction(db, keyed, seconds=seconds)
