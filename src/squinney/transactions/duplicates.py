"""A place that is taken: by a document that is there to stay, or by one whose operation is not decided yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.errors import BulkWriteError

from squinney.mongo.schema import Db
from squinney.transactions.steps import Step

CODE = 11000


def in_batch(error: BulkWriteError) -> Mapping[str, Any] | None:
    """The server's report of the first duplicate key of a batch; None where it failed for another reason."""
    reports = (error.details or {}).get("writeErrors", [])
    return next((report for report in reports if report["code"] == CODE), None)


def refuse_if_settled(db: Db, step: Step, report: Mapping[str, Any]) -> None:
    """Raise the step's error, unless what is in its way is gone, or held by a run that may yet be rolled back."""
    if _is_settled(db, step, report):
        raise step.taken(db[step.collection].find_one(step.place) if step.insert is None else None)


def _is_settled(db: Db, step: Step, report: Mapping[str, Any]) -> bool:
    value = report.get("keyValue")
    if not value or "collation" in report:  # with a collation the report holds no value that can be looked up
        return True
    return db[step.collection].find_one({**value, "txn_lock": None}, {"_id": 1}) is not None
