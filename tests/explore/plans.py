"""Random plans on a few documents, so that they often change the same ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from squinney.errors import Conflict
from squinney.mongo.schema import Collection, Db, Index
from squinney.testing import Operation
from squinney.transactions import COLLECTIONS, Step, Transactions

PLACES = [(name, number) for name in ("xs", "ys") for number in (1, 2, 3)]
LOGINS = ["ada", "bob", "eve"]
PLACED = [Collection(name, indexes=[Index([("login", 1)], unique=True, sparse=True)]) for name in ("xs", "ys")]
PLAN_COLLECTIONS = [*COLLECTIONS, *PLACED]

COUNTS = {"beans": 2, "used": 1, "seen_by": 0}
STORED: dict[int, dict[str, Any]] = {1: {"n": 2, "login": "ada", **COUNTS}, 2: {"n": 1, **COUNTS}}


class NotSo(Conflict):
    """A guard did not match."""


def prepare(db: Db) -> None:
    """Insert two documents into each collection; the third id is free."""
    for name in ("xs", "ys"):
        db[name].insert_many([{"_id": number, **document} for number, document in STORED.items()])


def plan(rng: random.Random) -> Sequence[Step]:
    """Return a plan of one to three steps, each on another document. A plan that `Plan` refuses is drawn again."""
    while True:
        try:
            return [_step(rng, *place) for place in rng.sample(PLACES, rng.choice([1, 2, 2, 3]))]
        except ValueError:
            continue


def _step(rng: random.Random, name: str, number: int) -> Step:
    if number < 3 and rng.random() < 0.4:
        return _counted(rng, name, number)
    if rng.random() < (0.6 if number == 3 else 0.1):
        login: dict[str, Any] = {"login": rng.choice(LOGINS)} if rng.random() < 0.4 else {}
        return Step(name, number, insert={"n": rng.randint(0, 2), **login})
    if rng.random() < 0.1:
        return Step(name, number, guard=_guard(rng), delete=True, refused=NotSo)
    amount = rng.choice([-2, -1, 1, 2])
    update: dict[str, Any] = rng.choice(
        [
            {},
            {"$inc": {"n": amount}},
            {"$set": {"m": amount}},
            {"$push": {"seen": amount}},
            {"$set": {"login": rng.choice(LOGINS)}},
        ]
    )
    return Step(name, number, guard=_guard(rng), update=update, refused=NotSo)


def _counted(rng: random.Random, name: str, number: int) -> Step:
    """Return a step that counts with a lower limit, with one of two upper limits, or without a limit."""
    amount, more = rng.choice([1, 2]), rng.choice([{}, {"n": {"$gte": 1}}, {"m": None}])
    guard, counts = rng.choice(
        [
            ({}, {"beans": amount, "used": -1, "seen_by": -amount}),
            ({"beans": {"$gte": amount}}, {"beans": -amount}),
            ({"used": {"$lt": rng.choice([2, 3])}}, {"used": amount, "seen_by": 1}),
        ]
    )
    return Step(name, number, guard={**guard, **more}, update={"$inc": counts}, refused=NotSo)


def _guard(rng: random.Random) -> dict[str, Any]:
    return rng.choice([{}, {"n": {"$gte": 1}}, {"n": {"$lt": 2}}, {"n": 2}, {"login": None}])


def operations(seed: int, count: int) -> list[Operation]:
    """Return `count` random plans, one of which at least is not refused if it runs alone."""
    rng = random.Random(seed)
    while True:
        plans = [plan(rng) for _ in range(count)]
        if any(all(map(_is_possible, steps)) for steps in plans):
            return [_named(steps) for steps in plans]


def _is_possible(step: Step) -> bool:
    if "login" in {**(step.insert or {}), **(step.update or {}).get("$set", {})}:
        return False  # another document may have it
    found = STORED.get(step.id)
    if found is None or step.insert is not None:
        return found is None and step.insert is not None
    return all(_holds(found.get(name), wanted) for name, wanted in step.guard.items())


def _holds(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return all(value >= limit if operator == "$gte" else value < limit for operator, limit in wanted.items())
    return bool(value == wanted)


def as_operation(steps: Callable[[], Sequence[Step]]) -> Operation:
    """Return a plan as an operation."""
    return Operation(lambda db: Transactions(db).run("test", steps), steps.__name__)


def _named(steps: Sequence[Step]) -> Operation:
    def run() -> Sequence[Step]:
        return steps

    run.__name__ = "; ".join(_told(step) for step in steps)
    return as_operation(run)


def _told(step: Step) -> str:
    does = {"guard": step.guard, "update": step.update, "insert": step.insert, "delete": step.delete}
    return f"{step.name}/{step.id} " + ", ".join(f"{name} {what}" for name, what in does.items() if what)
