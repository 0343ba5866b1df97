"""Finishing or undoing a two-phase run from its stored record alone.

The process that started the run does this. If it died, `Transactions.recover()` does, in any process. Every function
here may be repeated any number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from pymongo import DeleteOne, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.errors import BulkWriteError

from squinney.mongo.connect import after, is_away
from squinney.mongo.schema import Db, Document
from squinney.transactions import records, steps

ORDER = ("insert", "update", "delete")


def finish(db: Db, record: Document, keep_keys_seconds: float) -> None:
    """Apply the remaining changes of a decided run, then close its record."""
    give(db, record)
    _close(db, record, keep_keys_seconds)


def give(db: Db, record: Document, session: ClientSession | None = None) -> None:
    """Apply the rest of every step and release its document, in one update per document."""
    _for_each_collection(db, record, _finish_request, session=session)


def _finish_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | DeleteOne:
    if stored["verb"] == "delete":
        return DeleteOne(_held(stored, txn))
    update = steps.merge(stored.get("update", {}), _release(stored, txn))
    return UpdateOne(_held(stored, txn), update, array_filters=stored.get("array_filters"))


def _held(stored: Mapping[str, Any], txn: Any) -> Document:
    """Return a filter that matches while the document has the run's marker or is its stub: a repeat matches nothing."""
    return {**stored["filter"], "txn_stub" if stored["verb"] == "insert" else "txns": txn}


def _release(stored: Mapping[str, Any], txn: Any) -> Document:
    if stored["verb"] == "insert":
        return {"$unset": {"txn_stub": "", "txn_lock": ""}}
    marker: Document = {"$pull": {"txns": txn}}
    return marker if stored["shared"] else {**marker, "$unset": {"txn_lock": ""}}


def _close(db: Db, record: Document, keep_keys_seconds: float) -> None:
    where = {"_id": record["_id"], "txn": record["txn"]}
    if record["fingerprint"] is None:
        db[records.NAME].delete_one(where)
        return
    done = {"state": "done", "expires_at": after(keep_keys_seconds)}
    db[records.NAME].update_one({**where, "state": "commit"}, [{"$set": done}, {"$unset": ["steps", "due_at"]}])


def roll_back(db: Db, record: Document, *, tombs_for_seconds: float = 0) -> None:
    """Undo the takes of a run, then free its key.

    With `tombs_for_seconds` it first sets tombstones against writes that may still arrive. A process that rolls back
    its own run knows that there are none.
    """
    where = {"_id": record["_id"], "txn": record["txn"]}
    undecided = {**where, "state": {"$in": ["new", "rollback"]}}
    since = {"$cond": [{"$eq": ["$state", "rollback"]}, "$due_at", "$$NOW"]}  # find_stuck() counts from the first try
    if not db[records.NAME].update_one(undecided, [{"$set": {"state": "rollback", "due_at": since}}]).matched_count:
        return
    if tombs_for_seconds:
        # If a validator rejects the tombstone, it rejects the marker too, so that no late write can succeed there.
        _for_each_collection(db, record, _tomb_request, may_be_refused=True)
    _for_each_collection(db, record, _undo_request)
    if tombs_for_seconds:
        _schedule_sweep(db, record, tombs_for_seconds)
    db[records.NAME].delete_one({**where, "state": "rollback"})


def _tomb_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | None:
    if stored["verb"] == "insert":
        return None  # there may be no document yet; the server's clock stops late inserts, and the sweep deletes them
    return UpdateOne(dict(stored["filter"]), {"$addToSet": {"tombs": txn}})


def _undo_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | DeleteOne:
    if stored["verb"] == "insert":
        return DeleteOne(_held(stored, txn))
    return UpdateOne(_held(stored, txn), steps.merge(stored.get("undo", {}), _release(stored, txn)))


def _schedule_sweep(db: Db, record: Document, seconds: float) -> None:
    """Insert a separate record for the tombstones, since the key may be used again at once."""
    due_at = record["deadline"] + timedelta(seconds=seconds)
    tombs = {**record, "_id": {"tombs": record["txn"]}, "state": "tombs", "due_at": due_at}
    db[records.NAME].replace_one({"_id": tombs["_id"]}, tombs, upsert=True)


def sweep_tombs(db: Db, record: Document) -> None:
    """Remove tombstones for which no write can arrive any more, and stubs that were inserted late nevertheless."""
    _for_each_collection(db, record, _sweep_request)
    db[records.NAME].delete_one({"_id": record["_id"], "state": "tombs"})


def _sweep_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | DeleteOne:
    if stored["verb"] == "insert":
        return DeleteOne(_held(stored, txn))
    return UpdateOne({**stored["filter"], "tombs": txn}, {"$pull": {"tombs": txn}})


def _for_each_collection(
    db: Db,
    record: Document,
    request: Callable[[Mapping[str, Any], Any], UpdateOne | DeleteOne | None],
    *,
    may_be_refused: bool = False,
    session: ClientSession | None = None,
) -> None:
    """Send one unordered batch per collection and verb: after the decision no step depends on another.

    Inserts come first, so that a document without a marker agrees with the documents that its run inserted. Deletes
    come last: once a deleted id is free to be inserted again, the rest of the run has been applied.
    """
    by_collection: dict[tuple[int, str], list[Any]] = {}
    for stored in record["steps"]:
        if made := request(stored, record["txn"]):
            by_collection.setdefault((ORDER.index(stored["verb"]), stored["collection"]), []).append(made)
    for (_, name), requests in sorted(by_collection.items(), key=lambda item: item[0]):
        try:
            db[name].bulk_write(requests, ordered=False, session=session)
        except BulkWriteError as error:
            if is_away(error) or not may_be_refused:
                raise
