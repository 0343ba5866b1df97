"""Why a step did not go through: refused for good, or held up by a run that is not decided yet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from squinney.errors import SquinneyError
from squinney.mongo.paths import value_at
from squinney.mongo.schema import Db, Document
from squinney.transactions import records
from squinney.transactions.steps import UNLOCKED, Step, identity_of


def refusal_of(db: Db, step: Step) -> SquinneyError | None:
    """The step's error, if its guard fails however the undecided runs on its document end."""
    if failing := db[step.name].find_one({**step.document_filter, "$nor": [step.condition], **UNLOCKED}):
        return step.refusal(failing)
    document = db[step.name].find_one(step.document_filter)
    if document is None:
        return step.refusal(None)
    goes_beside = step.shared and document.get("txns") and document.get("txn_lock") is None
    return step.refusal(document) if goes_beside and not _may_fit(db, step, document) else None


def _may_fit(db: Db, step: Step, document: Document) -> bool:
    """Shared takes that are undone and gives that are done can only help the guard of a shared take: if all of them do
    not, nothing will. A limit that gives may overshoot they can only pass.
    """
    at_best: Counter[str] = Counter()
    for txn in document["txns"]:
        record = records.open_run(db, txn)
        if record is None or record["state"] == "tombs":  # it ended just now
            return True
        for change in _what_may_come(record, step):
            at_best.update(change)
    taken = (step.take or {}).get("$inc", {})
    added = ({"$set": {path: {"$add": [f"${path}", n]}}} for path, n in at_best.items() if path in taken)
    as_seen = {"$match": {**step.document_filter, "txns": document["txns"]}}
    refused = {"$match": {"$nor": [step.condition]}}
    return not list(db[step.name].aggregate([as_seen, *added, refused, {"$project": {"_id": 1}}]))


def _what_may_come(record: Document, step: Step) -> Iterator[dict[str, int]]:
    helpful = {"new": ("undo", "update"), "commit": ("update",), "rollback": ("undo",)}[record["state"]]
    for stored in record["steps"]:
        if identity_of(stored["collection"], stored["filter"]["_id"]) == step.identity:
            yield from (stored.get(name, {}).get("$inc", {}) for name in helpful)


def refuse_if_taken(db: Db, step: Step, report: Mapping[str, Any]) -> bool:
    """Raise the step's error, if a document that is there to stay has its id or unique value. Otherwise tell whether
    somebody has it whose run is not decided.

    A stub whose run has no record is nobody's: it came too late, and is removed.
    """
    value, collation = report.get("keyValue"), report.get("collation")
    if collation:  # then the report holds no value that can be looked up
        value = {path: value_at(step.insert or step.update.get("$set", {}), path) for path in report["keyPattern"]}
    if not value:
        raise step.taken(None)
    same = {path: {"$in" if isinstance(part, list) else "$eq": part} for path, part in value.items()}
    having = {"$and": [same, _indexed(db, step.name, report)]}
    look_up = partial(db[step.name].find_one, projection={"txn_lock": 1, "txn_stub": 1}, collation=collation)
    # The undecided first, where a sparse or multikey index holds only one of those found.
    holder = look_up({**having, "txn_lock": {"$ne": None}}) or look_up(having)
    if holder is None:
        return False
    if holder.get("txn_lock") is None:
        raise step.taken(db[step.name].find_one(step.document_filter) if step.insert is None else None)
    if (stub := holder.get("txn_stub")) is not None and records.open_run(db, stub) is None:
        db[step.name].delete_one({"_id": holder["_id"], "txn_stub": stub})
        return False
    return True


def _indexed(db: Db, name: str, report: Mapping[str, Any]) -> Document:
    """Which documents the index of the report holds: with a partial index, not all that have the value."""
    found = re.search(r" index: (.+) (?:collation: .+ )?dup key: ", report.get("errmsg", ""))
    indexes = db[name].index_information() if found and found[1] != "_id_" else {}
    return dict(indexes.get(found[1], {}).get("partialFilterExpression", {})) if found else {}
