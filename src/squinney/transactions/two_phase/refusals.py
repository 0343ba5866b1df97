"""Why a step could not be prepared although no other run holds its document: it is refused.

Like `squinney.transactions.refusals`, this reads in one transaction, whose commit waits for a majority: what it sees is
neither old nor rolled back later. A document that a run holds refuses nobody, since that run is not over.
"""

from __future__ import annotations

from collections.abc import Iterable

from pymongo.client_session import ClientSession

from squinney.errors import SquinneyError
from squinney.mongo.schema import Db
from squinney.transactions.attempts import in_transaction
from squinney.transactions.steps import Step
from squinney.transactions.two_phase.documents import LOCK_FIELD


def first_refusal(db: Db, steps: Iterable[Step]) -> SquinneyError | None:
    """Return the error of the first step that is refused now, in the order of the plan."""

    def look(session: ClientSession) -> SquinneyError | None:
        return next((error for step in steps if (error := _refusal(db, step, session))), None)

    return in_transaction(db, look)


def _refusal(db: Db, step: Step, session: ClientSession) -> SquinneyError | None:
    where = {"_id": step.id} if step.insert is not None else step.document_filter
    document = db[step.name].find_one(where, session=session)
    # guard, 2 lines: a document that a run holds refuses nobody
    if document is not None and document.get(LOCK_FIELD) is not None:
        return None
    if step.insert is not None:
        return step.duplicate(None) if document else None
    if document is None:
        return step.refusal(None)
    failing = {**step.document_filter, "$nor": [dict(step.guard)]} if step.guard else None
    return step.refusal(document) if failing and db[step.name].find_one(failing, session=session) else None
