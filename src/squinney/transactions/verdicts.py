"""Why a step did not match: it is refused for good, or a run that is not decided yet blocks it."""

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
    """Return the step's error if its guard fails whichever way the undecided runs on its document end."""
    if failing := db[step.name].find_one({**step.document_filter, "$nor": [step.condition], **UNLOCKED}):
        return step.refusal(failing)
    document = db[step.name].find_one(step.document_filter)
    if document is None:
        return step.refusal(None)
    only_shared_runs = step.shared and document.get("txns") and document.get("txn_lock") is None
    return step.refusal(document) if only_shared_runs and not _may_match_later(db, step, document) else None


def _may_match_later(db: Db, step: Step, document: Document) -> bool:
    """Return whether the guard of a shared step could match once the undecided shared runs have ended.

    Takes that are undone and gives that are applied can only help the guard of a shared take: if all of them together
    do not suffice, nothing will. They cannot help with a limit that gives may overshoot.
    """
    at_best: Counter[str] = Counter()
    for txn in document["txns"]:
        record = records.open_run(db, txn)
        if record is None or record["state"] == "tombs":  # the run ended just now
            return True
        for change in _possible_changes(record, step):
            at_best.update(change)
    taken = (step.take or {}).get("$inc", {})
    added = ({"$set": {path: {"$add": [f"${path}", n]}}} for path, n in at_best.items() if path in taken)
    as_seen = {"$match": {**step.document_filter, "txns": document["txns"]}}
    refused = {"$match": {"$nor": [step.condition]}}
    return not list(db[step.name].aggregate([as_seen, *added, refused, {"$project": {"_id": 1}}]))


def _possible_changes(record: Document, step: Step) -> Iterator[dict[str, int]]:
    helpful = {"new": ("undo", "update"), "commit": ("update",), "rollback": ("undo",)}[record["state"]]
    for stored in record["steps"]:
        if identity_of(stored["collection"], stored["filter"]["_id"]) == step.identity:
            yield from (stored.get(name, {}).get("$inc", {}) for name in helpful)


def refuse_if_taken(db: Db, step: Step, report: Mapping[str, Any]) -> bool:
    """Raise the step's error if a committed document has the step's id or unique value.

    Otherwise return whether a document of an undecided run has it. A stub whose run has no record was inserted too
    late, and is deleted.
    """
    value, collation = report.get("keyValue"), report.get("collation")
    if collation:  # then the report contains no value that can be queried
        value = {path: value_at(step.insert or step.update.get("$set", {}), path) for path in report["keyPattern"]}
    if not value:
        raise step.duplicate(None)
    same = {path: {"$in" if isinstance(part, list) else "$eq": part} for path, part in value.items()}
    having = {"$and": [same, _indexed(db, step.name, report)]}
    look_up = partial(db[step.name].find_one, projection={"txn_lock": 1, "txn_stub": 1}, collation=collation)
    # Documents of undecided runs first: a sparse or multikey index may contain only one of the documents found.
    holder = look_up({**having, "txn_lock": {"$ne": None}}) or look_up(having)
    if holder is None:
        return False
    if holder.get("txn_lock") is None:
        raise step.duplicate(db[step.name].find_one(step.document_filter) if step.insert is None else None)
    if (stub := holder.get("txn_stub")) is not None and records.open_run(db, stub) is None:
        db[step.name].delete_one({"_id": holder["_id"], "txn_stub": stub})
        return False
    return True


def _indexed(db: Db, name: str, report: Mapping[str, Any]) -> Document:
    """Return the filter for the documents in the report's index: a partial index does not contain all."""
    found = re.search(r" index: (.+) (?:collation: .+ )?dup key: ", report.get("errmsg", ""))
    indexes = db[name].index_information() if found and found[1] != "_id_" else {}
    return dict(indexes.get(found[1], {}).get("partialFilterExpression", {})) if found else {}
