"""Why a run did not succeed: it is refused, or another operation changed the document meanwhile.

Each decision is read in one transaction, whose commit waits for a majority. So it cannot be a view of the past, such as
a majority read gives at a new primary, and what it saw is not rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pymongo.client_session import ClientSession

from squinney.errors import SquinneyError
from squinney.mongo.schema import Db
from squinney.transactions.attempts import in_transaction
from squinney.transactions.keys import ANY_DATE, KeyRecord, earlier_outcome
from squinney.transactions.steps import Step


def first_refusal(db: Db, steps: Iterable[Step], key: KeyRecord | None) -> tuple[Step, SquinneyError] | None:
    """Return the first step that is refused now, and its error; None also for a key that has an outcome."""

    def look(session: ClientSession) -> tuple[Step, SquinneyError] | None:
        # guard, 2 lines: a repeat is not refused for a document that is a suspect
        if earlier_outcome(db, key, session):
            return None
        # guard, 3 lines: a refusal is decided in a transaction
        return next(((step, error) for step in steps if (error := refusal_in(db, step, session))), None)

    return in_transaction(db, look)


def refusal_in(db: Db, step: Step, session: ClientSession) -> SquinneyError | None:
    """Return the error of a step that is refused now, as the session's transaction sees its document."""
    # guard: a document with any date can be refused
    collection = db[step.name].with_options(ANY_DATE)
    if step.insert is not None:
        taken = collection.find_one(step.document_filter, {"_id": 1}, session=session)
        return step.duplicate(None) if taken else None
    if step.guard and (failing := collection.find_one({**step.document_filter, "$nor": [step.guard]}, session=session)):
        return step.refusal(failing)
    exists = collection.find_one(step.document_filter, {"_id": 1}, session=session)
    return None if exists else step.refusal(None)


def duplicate_of(db: Db, step: Step, report: Mapping[str, Any]) -> SquinneyError | None:
    """Return the step's error if a document has the id or unique value that the server reports."""
    value = report.get("keyValue")
    if not value:
        return step.duplicate(None)

    def look(session: ClientSession) -> SquinneyError | None:
        same = {path: {"$in" if isinstance(part, list) else "$eq": part} for path, part in value.items()}
        collection = db[step.name].with_options(ANY_DATE)
        if collection.find_one(same, {"_id": 1}, session=session) is None:
            return None
        own = collection.find_one(step.document_filter, session=session) if step.insert is None else None
        return step.duplicate(own)

    # guard: a duplicate is decided in a transaction
    return in_transaction(db, look)
