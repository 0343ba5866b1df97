"""Jars of beans, and plans that move beans between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymongo.errors import PyMongoError

from squinney import transactions
from squinney.errors import Conflict, SquinneyError
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.transactions import Step

FULL = 100


class TooLittle(Conflict):
    """The jar does not contain that many beans."""


def filled(db: Db) -> Db:
    """Make jars a to d; only a has beans."""
    schema.apply(db, transactions.COLLECTIONS)
    db.jars.insert_many([{"_id": name, "beans": FULL if name == "a" else 0} for name in "abcd"])
    return db


def move(source: str, target: str, beans: int, note: Any = None) -> list[Step]:
    """Move beans from one jar to another, and insert a note about it if it has an id."""
    steps = [
        Step("jars", source, guard={"beans": {"$gte": beans}}, update={"$inc": {"beans": -beans}}, refused=TooLittle),
        Step("jars", target, update={"$inc": {"beans": beans}}),
    ]
    return [*steps, Step("notes", note, insert={"from": source, "to": target, "beans": beans})] if note else steps


def fill(jar: str, beans: int = 1) -> list[Step]:
    """Put beans into a jar."""
    return [Step("jars", jar, update={"$inc": {"beans": beans}})]


def beans(db: Db) -> dict[str, int]:
    """Return what each jar contains."""
    return {jar["_id"]: jar["beans"] for jar in db.jars.find().sort("_id")}


def by_notes(db: Db) -> dict[str, int]:
    """Return what the jars must contain according to the notes."""
    held = {name: FULL if name == "a" else 0 for name in "abcd"}
    for note in db.notes.find():
        held[note["from"]] -= note["beans"]
        held[note["to"]] += note["beans"]
    return held


def outcome_of(work: Callable[[], Any]) -> Any:
    """Return what `work` returns, or the error that it raises."""
    try:
        return work()
    except (SquinneyError, PyMongoError, OverflowError) as error:
        return error
