"""What becomes of a two-phase run once it is decided, or was left: finished or undone, from its stored record alone.

Whoever ran it does this, and where that process died, `Transactions.recover()`: any number of times, anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo import DeleteOne, UpdateOne
from pymongo.errors import BulkWriteError

from squinney.mongo.connect import after, is_away
from squinney.mongo.schema import Db, Document
from squinney.transactions import records, steps


def finish(db: Db, record: Document, keep_keys_seconds: float) -> None:
    """Give what is still to be given, then close the record. Any number of times, anywhere."""
    _for_each_collection(db, record, _finish_request)
    _close(db, record, keep_keys_seconds)


def _finish_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | DeleteOne:
    if stored["does"] == "insert":
        return UpdateOne({**stored["place"], "txn_stub": txn}, steps.finish_update(stored, txn))
    if stored["does"] == "delete":
        return DeleteOne(marked(stored, txn))
    return _update(marked(stored, txn), steps.finish_update(stored, txn), stored)


def marked(stored: Mapping[str, Any], txn: Any) -> Document:
    """The document while the run has its marker there: so a repeat matches nothing."""
    return {**stored["place"], "txns": txn}


def _close(db: Db, record: Document, keep_keys_seconds: float) -> None:
    where = {"_id": record["_id"], "txn": record["txn"]}
    if record["fingerprint"] is None:
        db[records.NAME].delete_one(where)
        return
    done = {"state": "done", "expires_at": after(keep_keys_seconds)}
    db[records.NAME].update_one({**where, "state": "commit"}, [{"$set": done}, {"$unset": ["steps", "due_at"]}])


def roll_back(db: Db, record: Document, *, tombs_for_seconds: float = 0) -> None:
    """Undo what was taken, then free the key. Any number of times, anywhere.

    `tombs_for_seconds` leaves tombstones first, against a writer that may still be on its way: whoever rolls back its
    own run knows that there is none.
    """
    where = {"_id": record["_id"], "txn": record["txn"]}
    db[records.NAME].update_one({**where, "state": "new"}, [{"$set": {"state": "rollback", "due_at": "$$NOW"}}])
    current = db[records.NAME].find_one(where, {"state": 1})
    if current is None or current["state"] != "rollback":
        return
    if tombs_for_seconds:
        _put_tombs(db, record)
    _for_each_collection(db, record, _undo_request)
    if tombs_for_seconds:
        _remember_tombs(db, record, tombs_for_seconds)
    db[records.NAME].delete_one({**where, "state": "rollback"})


def _put_tombs(db: Db, record: Document) -> None:
    """Where the server refuses a tombstone, by a validator, it refuses the marker too: nobody can come late there."""
    _for_each_collection(db, record, _tomb_request, may_be_refused=True)


def _tomb_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | None:
    if stored["does"] == "insert":
        return None  # there may be no document to carry it; the server's clock keeps late inserts out, or the sweep
    return UpdateOne(dict(stored["place"]), {"$addToSet": {"tombs": txn}})


def _undo_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | DeleteOne:
    if stored["does"] == "insert":
        return DeleteOne({**stored["place"], "txn_stub": txn})
    return _update(marked(stored, txn), steps.undo_update(stored, txn), stored)


def _remember_tombs(db: Db, record: Document, seconds: float) -> None:
    """A record of its own, since the key may be used again at once."""
    tombs = {
        "_id": {"tombs": record["txn"]},
        "txn": record["txn"],
        "kind": record["kind"],
        "state": "tombs",
        "steps": record["steps"],
    }
    times = {"at": "$$NOW", "due_at": {"$add": [record["deadline"], int(seconds * 1000)]}}
    records.upsert(db, {"_id": tombs["_id"]}, [{"$replaceWith": {"$mergeObjects": [{"$literal": tombs}, times]}}])


def sweep_tombs(db: Db, record: Document) -> None:
    """Remove tombstones that no writer can be late enough to meet, and stubs that came late all the same."""
    _for_each_collection(db, record, _sweep_request)
    db[records.NAME].delete_one({"_id": record["_id"], "state": "tombs"})


def _sweep_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | DeleteOne:
    if stored["does"] == "insert":
        return DeleteOne({**stored["place"], "txn_stub": txn})
    return UpdateOne({**stored["place"], "tombs": txn}, {"$pull": {"tombs": txn}})


def _update(where: Document, update: Document, stored: Mapping[str, Any]) -> UpdateOne:
    filters = steps.array_filters_for(update, stored.get("array_filters") or ())
    return UpdateOne(where, update, array_filters=filters)


def _for_each_collection(db: Db, record: Document, request: Any, *, may_be_refused: bool = False) -> None:
    """One unordered batch per collection: after the decision no step depends on another.

    Inserted documents come first, so that a document without a marker agrees with what was inserted beside it.
    """
    by_collection: dict[tuple[bool, str], list[Any]] = {}
    for stored in record["steps"]:
        if made := request(stored, record["txn"]):
            by_collection.setdefault((stored["does"] != "insert", stored["collection"]), []).append(made)
    for (_, name), requests in sorted(by_collection.items(), key=lambda item: item[0]):
        try:
            db[name].bulk_write(requests, ordered=False)
        except BulkWriteError as error:
            if is_away(error) or not may_be_refused:
                raise
