"""The writes of a run to its documents: lock or stub, then apply or release. Each may be repeated without effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bson.timestamp import Timestamp
from pymongo import DeleteOne, UpdateOne

from squinney.mongo.schema import Db, Document
from squinney.transactions.steps import Step
from squinney.transactions.two_phase.documents import LOCK_FIELD, PROTOCOL_FIELDS, STUB_FIELD, UNLOCKED

Stored = Mapping[str, Any]
Request = UpdateOne | DeleteOne
RELEASED: Document = dict.fromkeys(sorted(PROTOCOL_FIELDS), "")
ORDER = ("insert", "update", "delete")


def stored_form(step: Step) -> Document:
    """Return what any process needs to apply or release a step."""
    stored: Document = {"collection": step.name, "verb": step.verb, "filter": step.document_filter}
    if step.update:
        stored["update"] = dict(step.update)
        stored["array_filters"] = step.write().get("arrayFilters")
    return stored


# ---- before the decision ----


def locking_filter(step: Step, record: Document) -> Document:
    """Match the document if its guard matches, no run holds it, and the deadline has not passed.

    A process that was paused may send this when its run has long been rolled back: the server's clock stops it.
    """
    in_time = {"$expr": {"$lt": ["$$NOW", record["deadline"]]}}
    # guard: a late lock is stopped by the server's clock
    # guard: a document has one lock
    # guard: a step checks its guard when it locks
    return {**step.document_filter, "$and": [dict(step.guard), UNLOCKED, in_time]}


def stub_request(step: Step, record: Document) -> UpdateOne:
    """Return the upsert of a stub, which fails after the deadline.

    The filter of an upsert cannot contain `$expr`, so the pipeline divides by zero instead. The server fills an empty
    `Timestamp` only in a plain insert, so the pipeline does it.
    """
    run_id = record["_id"]
    stub = {**(step.insert or {}), "_id": step.id, LOCK_FIELD: run_id, STUB_FIELD: run_id}
    # guard: a stub has the server's time
    filled = {name: "$$CLUSTER_TIME" for name, value in stub.items() if value == Timestamp(0, 0)}
    one_or_error = {"$divide": [1, {"$cond": [{"$lt": ["$$NOW", record["deadline"]]}, 1, 0]}]}
    whole = {"$mergeObjects": [{"$literal": stub}, filled]}
    # guard: a late stub is stopped by the server's clock
    pipeline = [{"$replaceWith": {"$cond": [one_or_error, whole, None]}}]
    return UpdateOne({**step.document_filter, STUB_FIELD: run_id}, pipeline, upsert=True)


# ---- after the decision ----


def apply(db: Db, record: Document, *, bypass_validation: bool = False) -> None:
    """Apply the changes of a committed run to the documents that it still holds, and release them.

    Inserts come first: a document without a lock then agrees with those that its run inserted. Deletes come last: when
    the id is free again, the rest of the run has been applied.
    """
    for verb in ORDER:
        _send(db, record, verb, _applying, bypass_validation)


def release(db: Db, record: Document) -> None:
    """Release the documents of a run that is rolled back, and delete its stubs."""
    for verb in ORDER:
        _send(db, record, verb, _releasing)


def release_one(db: Db, name: str, document_id: Any, run_id: Any) -> int:
    """Release one document of a run that is rolled back, or delete its stub; return how many documents were changed."""
    where = {"_id": document_id}
    deleted = db[name].delete_one({**where, STUB_FIELD: run_id}).deleted_count
    return deleted or db[name].update_one({**where, LOCK_FIELD: run_id}, {"$unset": RELEASED}).modified_count


def held(stored: Stored, run_id: Any) -> Document:
    """Return a filter that matches while the run holds the document: a repeat matches nothing."""
    # guard: a change is applied once
    return {**stored["filter"], STUB_FIELD if stored["verb"] == "insert" else LOCK_FIELD: run_id}


def _applying(stored: Stored, run_id: Any) -> Request:
    if stored["verb"] == "delete":
        return DeleteOne(held(stored, run_id))
    update = stored.get("update", {})
    released = {**update, "$unset": {**update.get("$unset", {}), **RELEASED}}
    return UpdateOne(held(stored, run_id), released, array_filters=stored.get("array_filters"))


def _releasing(stored: Stored, run_id: Any) -> Request:
    if stored["verb"] == "insert":
        return DeleteOne(held(stored, run_id))
    return UpdateOne(held(stored, run_id), {"$unset": RELEASED})


def _send(
    db: Db, record: Document, verb: str, request: Callable[[Stored, Any], Request], bypass_validation: bool = False
) -> None:
    """Send one unordered batch per collection: after the decision no step depends on another."""
    by_name: dict[str, list[Request]] = {}
    for stored in record.get("steps", ()):
        if stored["verb"] == verb:
            by_name.setdefault(stored["collection"], []).append(request(stored, record["_id"]))
    for name, requests in by_name.items():
        bypass = True if bypass_validation else None
        db[name].bulk_write(requests, ordered=False, bypass_document_validation=bypass)
