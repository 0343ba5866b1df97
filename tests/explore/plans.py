"""Random plans on a few documents, so that they often change the same ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from squinney.errors import Conflict
from squinney.mongo.schema import Collection, Db, Index
from squinney.testing import Operation
from squinney.transactions import COLLECTIONS, Mode, Step
from tests.explore.faults import in_mode

PLACES = [(name, number) for name in ("xs", "ys") for number in (1, 2, 3)]
LOGINS = ["ada", "bob", "eve"]
PLACED = {
    name: Collection(
        name,
        indexes=[Index([("login", 1)], unique=True, sparse=True)],
        escrow={"beans": "floor", "used": "ceiling", "seen_by": "free"},
    )
    for name in ("xs", "ys")
}
PLAN_COLLECTIONS = [*COLLECTIONS, *PLACED.values()]


class NotSo(Conflict):
    """A guard did not match."""


def prepare(db: Db) -> None:
    """Insert two documents into each collection; the third id is free."""
    for name in ("xs", "ys"):
        numbers = {"beans": 2, "used": 1, "seen_by": 0}
        db[name].insert_many([{"_id": 1, "n": 2, "login": "ada", **numbers}, {"_id": 2, "n": 1, **numbers}])


def plan(rng: random.Random) -> Sequence[Step]:
    """Return a plan of one to three steps, each on another document. A plan that `Plan` refuses is drawn again."""
    while True:
        try:
            return [_step(rng, *place) for place in rng.sample(PLACES, rng.choice([1, 2, 2, 3]))]
        except ValueError:
            continue


def _step(rng: random.Random, name: str, number: int) -> Step:
    if number < 3 and rng.random() < 0.4:
        return _shared(rng, name, number)
    if rng.random() < (0.6 if number == 3 else 0.1):
        login: dict[str, Any] = {"login": rng.choice(LOGINS)} if rng.random() < 0.4 else {}
        return Step(name, number, insert={"n": rng.randint(0, 2), **login})
    if rng.random() < 0.1:
        return Step(name, number, guard=_guard(rng), delete=True, refused=NotSo)
    amount = rng.choice([-2, -1, 1, 2])
    update: dict[str, Any] = rng.choice(
        [
            {},
            {"take": {"$inc": {"n": amount}}, "undo": {"$inc": {"n": -amount}}},
            {"give": {"$inc": {"n": amount}}},
            {"give": {"$set": {"m": amount}}},
            {"give": {"$push": {"seen": amount}}},
            {"give": {"$set": {"login": rng.choice(LOGINS)}}},
        ]
    )
    return Step(name, number, guard=_guard(rng), refused=NotSo, **update)


def _shared(rng: random.Random, name: str, number: int) -> Step:
    """Return a step with a lower limit, with one of two upper limits, or without a limit."""
    amount, more = rng.choice([1, 2]), rng.choice([{}, {"n": {"$gte": 1}}, {"m": None}])
    kind = rng.choice(["floor", "ceiling", "give"])
    how: dict[str, Any] = {"give": {"$inc": {"beans": amount, "used": -1, "seen_by": -amount}}, "guard": more}
    if kind == "floor":
        how = {"guard": {"beans": {"$gte": amount}, **more}, "take": {"$inc": {"beans": -amount}}}
    elif kind == "ceiling":
        how = {"guard": {"used": {"$lt": rng.choice([2, 3])}, **more}, "take": {"$inc": {"used": amount}}}
    if kind != "give" and rng.random() < 0.5:
        how["give"] = {"$inc": {"seen_by": 1}}
    return Step(PLACED[name], number, refused=NotSo, shared=True, **how)


def _guard(rng: random.Random) -> dict[str, Any]:
    return rng.choice([{}, {"n": {"$gte": 1}}, {"n": {"$lt": 2}}, {"n": 2}, {"login": None}])


def operations(seed: int, count: int, modes: Sequence[Mode]) -> list[Operation]:
    """Return `count` random plans, each in its mode."""
    rng = random.Random(seed)
    return [_named(plan(rng), mode) for _, mode in zip(range(count), modes, strict=True)]


def _named(steps: Sequence[Step], mode: Mode) -> Operation:
    def run() -> Sequence[Step]:
        return steps

    run.__name__ = "; ".join(_told(step) for step in steps)
    return in_mode(run, mode)


def _told(step: Step) -> str:
    does = {"guard": step.guard, "take": step.take, "give": step.give, "insert": step.insert, "delete": step.delete}
    return f"{step.name}/{step.id} " + ", ".join(f"{name} {what}" for name, what in does.items() if what)
