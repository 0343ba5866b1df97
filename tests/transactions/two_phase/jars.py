"""Moving coins between jars: the operation that the tests of the protocol run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from squinney.errors import Conflict
from squinney.mongo.schema import Db
from squinney.transactions import Step
from squinney.transactions.two_phase import PROTOCOL_FIELDS
from squinney.transactions.two_phase.documents import NAME

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class TooFew(Conflict):
    """The jar has too few coins."""


def moving(coins: int, note: str = "n", src: str = "a", dst: str = "b") -> list[Step]:
    """Return the steps that move coins and write a note."""
    return [
        Step("jars", src, guard={"coins": {"$gte": coins}}, update={"$inc": {"coins": -coins}}, refused=TooFew),
        Step("jars", dst, update={"$inc": {"coins": coins}}),
        Step("notes", note, insert={"coins": coins}),
    ]


def coins(db: Db) -> dict[str, int]:
    """Return how many coins each jar has."""
    return {jar["_id"]: jar["coins"] for jar in db["jars"].find()}


def expire(db: Db, kind: str = "move") -> None:
    """Let the deadline of every open run of a kind pass."""
    db[NAME].update_many(
        {"kind": kind, "due_at": {"$exists": True}}, {"$set": {"deadline": LONG_AGO, "due_at": LONG_AGO}}
    )


def leftovers(db: Db) -> list[Any]:
    """Return the documents that a run holds, and the records of runs that are not settled."""
    held = [{field: {"$exists": True}} for field in PROTOCOL_FIELDS]
    documents = [
        document
        for name in ("jars", "notes", "ledger.accounts", "ledger.entries")
        for document in db[name].find({"$or": held})
    ]
    return [*documents, *db[NAME].find({"due_at": {"$exists": True}})]
