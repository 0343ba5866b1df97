"""Idempotency keys: the collection `squinney.keys` has one document per key of a finished operation.

```
squinney.keys { _id: hash of scope, kind and key, run_id, kind, collections, fingerprint, result, at, expires_at }
```
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import bson
from bson import ObjectId, json_util
from bson.codec_options import DatetimeConversion
from pymongo.client_session import ClientSession

from squinney import checks
from squinney.mongo.pinned import CODEC
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db, Document, Index
from squinney.mongo.server_time import after
from squinney.transactions.attempts import in_transaction
from squinney.transactions.errors import KeyReused
from squinney.transactions.steps import Step

KEYS = "squinney.keys"  # the collection
KEEP_KEYS_SECONDS = 7 * 86_400
ANY_DATE = CODEC.with_options(datetime_conversion=DatetimeConversion.DATETIME_AUTO)  # also after the year 9999

COLLECTIONS = [
    Collection(
        KEYS,
        formerly="transactions",
        outdated=["state_1_due_at_1", "txn_1"],
        indexes=[Index([("expires_at", 1)], expire_after_seconds=0, why="deletes keys after a week")],
        shard_key={"_id": "hashed"},
    )
]
QUERIES: list[Query | Pipeline] = []


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
        checks.text(key.text, "key", min_length=1, max_length=200)
        checks.text(key.scope, "scope", max_length=200)
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
    # guard: a key belongs to its kind
    # guard: a key belongs to its scope
    return KeyRecord("key:" + _digest([key.scope, kind, key.text]), _digest(arguments))


def _digest(value: Any) -> str:
    return hashlib.sha256(json_util.dumps(value, sort_keys=True).encode()).hexdigest()


def as_stored(result: Any) -> Any:
    """Return the result as a repeat will get it: with lists for tuples, and times in milliseconds."""
    return bson.decode(bson.encode({"result": result}, codec_options=CODEC), ANY_DATE)["result"]


def recording(
    kind: str, run_id: ObjectId, key: KeyRecord, result: Any, collections: Iterable[str]
) -> tuple[Step, Document]:
    """Return the step that records a keyed operation inside its transaction, and what it sends.

    The collections that it changes are recorded, so that a key is forgotten when its data is removed.

    It is an upsert that cannot match: a plain insert could not use the server's time, by which the record expires.
    """
    record = {"_id": key.id, "run_id": run_id, "kind": kind, "fingerprint": key.fingerprint, "result": result}
    record["collections"] = sorted(set(collections))
    # guard: keys are kept by the server's clock
    times = {"at": "$$NOW", "expires_at": after(KEEP_KEYS_SECONDS)}
    pipeline = [{"$replaceWith": {"$mergeObjects": [{"$literal": record}, times]}}]
    return Step(KEYS, key.id), {"q": {"_id": key.id, "run_id": run_id}, "u": pipeline, "upsert": True}


def outcome_of(db: Db, key: KeyRecord | None) -> Outcome | None:
    """Return the outcome of the key's first run, read in a transaction: a majority read may be a view of the past."""
    return in_transaction(db, lambda session: earlier_outcome(db, key, session)) if key else None


def earlier_outcome(db: Db, key: KeyRecord | None, session: ClientSession) -> Outcome | None:
    """Return the outcome of the key's first run, or None without one.

    Raises: `KeyReused`.
    """
    record = db[KEYS].with_options(ANY_DATE).find_one({"_id": key.id}, session=session) if key else None
    if record is None or key is None:
        return None
    # guard: a key belongs to its arguments
    if record["fingerprint"] != key.fingerprint:
        raise KeyReused("this key was used with other arguments")
    return Outcome(record["run_id"], record.get("result"), replayed=True)
