"""One native transaction per idempotency key, for what guarded steps cannot express."""

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
    """Run `work` as `in_transaction` does, but only once per `key`, if there is one.

    A repeat with the same key and `arguments` returns what `work` returned first.

    Atomic: the transaction's commit, which includes the key's record. Of two concurrent calls the server aborts one,
    whose retry finds the other's record.
    After a crash: nothing remains.
    Raises: as `in_transaction`; `KeyReused`; `WriteRefused` if the server rejects the key's record.
    """
    db = pinned(db)
    key_record = records.key_record(kind, key, arguments)
    if key_record is None:
        return in_transaction(db, work, seconds=seconds)

    def keyed(session: ClientSession) -> T:
        if earlier := records.earlier_outcome(db, key_record, session):
            return cast(T, earlier.result)
        result = work(session)
        record = records.finished(kind, ObjectId(), key_record, result, records.KEEP_KEYS_SECONDS)
        native.insert_records(db, [record], session)
        return result

    return in_transaction(db, keyed, seconds=seconds)
