"""The `transactions` collection: one document per unfinished two-phase run and per idempotency key.

```
transactions { _id: hash of scope, kind and key, or the run's id; txn: the run's id, the marker in documents;
               kind, mode, fingerprint, result, steps, at, deadline, expires_at,
               state: new | commit | rollback | tombs | done,   due_at: when `recover()` may act on it }
```
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import ObjectId, json_util
from bson.codec_options import DatetimeConversion
from pymongo.client_session import ClientSession

from squinney import checks
from squinney.mongo.connect import after
from squinney.mongo.pinned import CODEC, pinned
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db, Document, Index
from squinney.transactions.errors import KeyReused, StillRunning

NAME = "transactions"
OPEN_STATES = ["new", "commit", "rollback", "tombs"]
KEEP_KEYS_SECONDS = 7 * 86_400

COLLECTIONS = [
    Collection(
        NAME,
        indexes=[
            Index([("state", 1), ("due_at", 1)], why="what recover() has to do"),
            Index([("txn", 1)], partial={"due_at": {"$exists": True}}, why="whether a marker's run is still open"),
            Index([("expires_at", 1)], expire_after_seconds=0, why="deletes the keys of finished runs"),
        ],
        shard_key={"_id": "hashed"},
    )
]

DUE = Query(
    "transactions.due",
    NAME,
    where=lambda state, until: {"state": state, "due_at": {"$lte": until}},
    example={"state": "new", "until": datetime(2026, 1, 1)},  # noqa: DTZ001 - a sample value
    sort=[("due_at", 1)],
    routing="broadcast",
    reason="recover() looks for work on every shard, every few seconds",
)
OPEN = Query(
    "transactions.open",
    NAME,
    where=lambda txn: {"txn": txn, "due_at": {"$exists": True}},
    example={"txn": "t"},
    routing="broadcast",
    reason="runs only if a marker blocks a step, to see whether its run is still open",
)
QUERIES: list[Query | Pipeline] = [DUE, OPEN]


# A date outside Python's range is read as a number: a record that cannot be read would end every `recover()`.
ANY_DATE = CODEC.with_options(datetime_conversion=DatetimeConversion.DATETIME_AUTO)


def pinned_any_date(db: Db) -> Db:
    """Return the database as `pinned` does, but able to read any date in a step or document."""
    return pinned(db, ANY_DATE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run: its id, the plan's result, and whether both are those of an earlier run."""

    id: Any
    result: Any
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key: an operation with it happens once. `scope` separates the keys of different callers."""

    text: str
    scope: str = ""

    @classmethod
    def of(cls, given: str | Key | None) -> Key | None:
        """Return the checked key; a plain string gets the empty scope.

        Raises: `Invalid`.
        """
        if given is None:
            return None
        key = given if isinstance(given, Key) else cls(given)
        checks.text(key.text, "key", least=1, most=200)
        checks.text(key.scope, "scope", most=200)
        return key


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The id of a key's record, and the fingerprint of the key's arguments."""

    id: str
    fingerprint: str


def key_record(kind: str, given: str | Key | None, arguments: Mapping[str, Any] | None) -> KeyRecord | None:
    """Return the id and fingerprint under which the key of an operation is recorded; None without a key.

    Raises: `Invalid`.
    """
    key = Key.of(given)
    if key is None:
        return None
    if arguments is None:
        raise ValueError("a key needs arguments, so that a repeat can be compared")
    return KeyRecord("key:" + _digest([key.scope, kind, key.text]), _digest(arguments))


def _digest(value: Any) -> str:
    return hashlib.sha256(json_util.dumps(value, sort_keys=True).encode()).hexdigest()


def finished(kind: str, txn: ObjectId, key: KeyRecord, result: Any, keep_seconds: float) -> Document:
    """Return the write that records a keyed operation inside its native transaction.

    It is an upsert that cannot match: a plain insert could not use the server's time, by which the record expires.
    """
    record = {
        "_id": key.id,
        "txn": txn,
        "kind": kind,
        "mode": "native",
        "fingerprint": key.fingerprint,
        "result": result,
        "state": "done",
    }
    times = {"at": "$$NOW", "expires_at": after(keep_seconds)}
    pipeline = [{"$replaceWith": {"$mergeObjects": [{"$literal": record}, times]}}]
    return {"q": {"_id": key.id, "txn": txn}, "u": pipeline, "upsert": True}


def open_run(db: Db, txn: Any) -> Document | None:
    """Return the record of the run that a marker names, or None if the run is settled or never existed.

    The query uses a field that never changes: in an index over states a record moves, and a scan may miss it.
    """
    return next(OPEN.find(pinned_any_date(db), txn=txn, limit=1), None)


def replay(record: Document, key: KeyRecord) -> Outcome:
    """Return the outcome for a repeat with the key.

    Raises: `KeyReused`, `StillRunning`.
    """
    if record["fingerprint"] != key.fingerprint:
        raise KeyReused("this key was used with other arguments")
    if record["state"] not in ("commit", "done"):
        raise StillRunning("an operation with this key is still running; try again")
    return Outcome(record["txn"], record.get("result"), replayed=True)


def earlier_outcome(db: Db, key: KeyRecord | None, session: ClientSession | None = None) -> Outcome | None:
    """Return the outcome of the key's first run; None without one, or while a majority does not have its record.

    Raises: `KeyReused`, `StillRunning`.
    """
    record = db[NAME].find_one({"_id": key.id}, session=session) if key else None
    return replay(record, key) if key and record else None
