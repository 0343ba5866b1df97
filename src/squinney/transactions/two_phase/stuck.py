"""Runs that cannot be settled, because of an index or validator that came after their decision: an operator decides."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from bson import ObjectId
from bson.errors import InvalidId
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from squinney.errors import Conflict, Invalid, NotFound
from squinney.mongo.deadlines import operation
from squinney.mongo.failures import is_away
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import after, server_now
from squinney.transactions.attempts import in_transaction
from squinney.transactions.two_phase import records, writes
from squinney.transactions.two_phase.documents import COMMIT, DUE, KEEP_SETTLED_SECONDS, NAME, ROLLED_BACK, UNLOCKED
from squinney.transactions.two_phase.writes import RELEASED, Stored

STUCK_AFTER_SECONDS = 60


def find_stuck(db: Db) -> Iterator[Problem]:
    """Yield runs that `recover()` should have settled a minute ago: it does not run, or the server rejects a write."""
    for record in stuck_runs(db):
        yield Problem(
            "stuck-run",
            f"{record['kind']} {record['_id']} of {record['at']:%Y-%m-%d %H:%M:%S} is not settled; its state is "
            f"{record['state']}: see `squinney ledger stuck`",
            documents={NAME: record["_id"]},
            repairable=True,
        )


def stuck_runs(db: Db) -> list[Document]:
    """Return the records of the runs that have been due for a minute, each with its `documents` as they are now."""
    db = pinned(db)
    with operation(60, reads_only=True):
        due = list(DUE.find(db, until=server_now(db) - timedelta(seconds=STUCK_AFTER_SECONDS)))
        return [_with_documents(db, record) for record in due]


def _with_documents(db: Db, record: Document) -> Document:
    shown = {name: record[name] for name in ("_id", "kind", "state", "at")}
    return {**shown, "documents": [_shown(db, record, stored) for stored in record.get("steps", ())]}


def _shown(db: Db, record: Document, stored: Stored) -> Document:
    holds = db[stored["collection"]].find_one(writes.held(stored, record["_id"]), {"_id": 1}) is not None
    shown = {"collection": stored["collection"], "id": stored["filter"]["_id"], "verb": stored["verb"]}
    return {**shown, "update": stored.get("update"), "held": holds}


def finish_stuck(db: Db, run_id: str) -> None:
    """Apply a committed run whatever the validators of its collections say. The user needs `bypassDocumentValidation`.

    Atomic: each document's own update.
    After a crash: run it again.
    Raises: `Invalid`; `NotFound`; `Conflict` with the server's reason if it rejects a write all the same.
    """
    db = pinned(db)
    with operation(60):
        record = _committed(db[NAME].find_one({"_id": _parsed(run_id)}), run_id)
        try:
            writes.apply(db, record, bypass_validation=True)
        except OperationFailure as error:
            raise _rejected(run_id, error) from error
        records.close(db, record)


def undo_stuck(db: Db, run_id: str) -> None:
    """Undo a committed run: release what it holds, take back the numbers that it added and delete what it inserted.

    Atomic: one MongoDB transaction.
    After a crash: nothing remains.
    Raises: `Invalid`; `NotFound`; `Conflict` if a change that was applied cannot be taken back.
    """
    db = pinned(db)
    parsed = _parsed(run_id)

    def undo(session: ClientSession) -> None:
        record = _committed(db[NAME].find_one({"_id": parsed}, session=session), run_id)
        for stored in record["steps"]:
            _undo(db, stored, parsed, session)
        undone = {"state": ROLLED_BACK, "expires_at": after(KEEP_SETTLED_SECONDS)}
        gone = ["key", "fingerprint", "result", "steps", "due_at"]
        db[NAME].update_one({"_id": parsed}, [{"$set": undone}, {"$unset": gone}], session=session)

    try:
        in_transaction(db, undo)
    except OperationFailure as error:
        raise _rejected(run_id, error) from error


def _undo(db: Db, stored: Stored, run_id: Any, session: ClientSession) -> None:
    collection = db[stored["collection"]]
    if stored["verb"] == "insert":
        collection.delete_one(stored["filter"], session=session)
    elif not collection.update_one(writes.held(stored, run_id), {"$unset": RELEASED}, session=session).matched_count:
        _take_back(db, stored, session)


def _take_back(db: Db, stored: Stored, session: ClientSession) -> None:
    """Reverse a change that was applied already, unless it only checked its guard."""
    update = stored.get("update", {})
    if stored["verb"] == "update" and not update:
        return
    name, where = stored["collection"], stored["filter"]
    opposite = {"$inc": {path: -amount for path, amount in update.get("$inc", {}).items()}}
    can_be_reversed = set(update) == {"$inc"} and not stored.get("array_filters")
    # guard: what another run holds is not taken back
    if not can_be_reversed or not db[name].update_one({**where, **UNLOCKED}, opposite, session=session).matched_count:
        raise Conflict(f"the {stored['verb']} of {name} {where['_id']!r} is done and cannot be taken back now")


def _parsed(run_id: str) -> ObjectId:
    try:
        return ObjectId(run_id)
    except InvalidId as error:
        raise Invalid(f"{run_id!r} is not the id of a run", field="run") from error


def _committed(record: Document | None, run_id: str) -> Document:
    if record is None:
        raise NotFound(f"there is no run {run_id}")
    # guard: only a decided run is settled by an operator
    if record["state"] != COMMIT:
        raise Conflict(
            f"run {run_id} is {record['state']}: only a run that is decided and not applied can be settled so"
        )
    return record


def _rejected(run_id: str, error: OperationFailure) -> Exception:
    if is_away(error):
        return error
    reasons = [report["errmsg"] for report in (error.details or {}).get("writeErrors", ())]
    return Conflict(f"the server rejects a write of run {run_id}: {'; '.join(reasons) or error}")
