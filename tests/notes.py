"""A document of the caller's own, which only one operation may sign, in a step of its own."""

from __future__ import annotations

from typing import Any

from squinney.errors import Conflict
from squinney.mongo.schema import Db
from squinney.transactions import Step

NOTES = "my.notes"


class Signed(Conflict):
    """Another operation has signed the note."""


def put_note(db: Db) -> None:
    """Insert the note, which nobody has signed."""
    db[NOTES].insert_one({"_id": "n", "by": None})


def sign(by: str) -> list[Step]:
    """Return the caller's further step, which signs the note."""
    return [Step(NOTES, "n", guard={"by": None}, update={"$set": {"by": by}}, refused=Signed)]


def signed_by(db: Db) -> Any:
    """Return who has signed the note, or None."""
    (note,) = db[NOTES].find({})
    return note["by"]
