"""Plans that an earlier protocol ran wrongly. The explorer found each of them; they are kept as regression tests.

A plan runs in one mode. It is compared with serial orders in native mode, so that a mode with another result is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from squinney.errors import Conflict
from squinney.mongo.schema import Collection, Db, Index
from squinney.testing import Operation
from squinney.transactions import COLLECTIONS, Mode, Step, Transactions

Steps = Callable[[], Sequence[Step]]


class Full(Conflict):
    """No room is left."""


class Empty(Conflict):
    """There is nothing to take."""


class Unwilling(Conflict):
    """A later step does not want it."""


@dataclass(frozen=True)
class Fault:
    """Documents, and plans that change the same ones."""

    name: str
    documents: dict[str, list[dict[str, Any]]]
    plans: Sequence[Steps]
    unique: dict[str, str] = field(default_factory=dict)

    @property
    def collections(self) -> list[Collection]:
        """The collections of its database."""
        indexes = {name: [Index([(path, 1)], unique=True, sparse=True)] for name, path in self.unique.items()}
        return [*COLLECTIONS, *(Collection(name, indexes=indexes.get(name, [])) for name in self.documents)]

    def prepare(self, db: Db) -> None:
        """Insert its documents."""
        for name, documents in self.documents.items():
            if documents:
                db[name].insert_many(documents)

    def operations(self, modes: Sequence[Mode]) -> list[Operation]:
        """Return the plans as operations, each in its mode."""
        return [in_mode(plan, mode) for plan, mode in zip(self.plans, modes, strict=True)]


def in_mode(steps: Steps, mode: Mode) -> Operation:
    """Return the plan as an operation in one mode, to be compared with the same plan in native mode."""

    def run(db: Db, mode: Mode = mode) -> None:
        Transactions(db, mode, timeout_seconds=20, margin_seconds=1).run("test", steps)

    return Operation(lambda db: run(db), f"{steps.__name__} {mode}", alone=lambda db: run(db, "native"))


# ---- undecided takes are spent ----


def book() -> list[Step]:
    room = Step(
        "rooms", 1, guard={"used": {"$lt": 10}}, take={"$inc": {"used": 1}}, undo={"$inc": {"used": -1}}, refused=Full
    )
    return [room, Step("wishes", 1, guard={"wanted": True}, refused=Unwilling)]


def leave() -> list[Step]:
    return [
        Step(
            "rooms", 1, guard={"used": {"$gte": 1}}, take={"$inc": {"used": -1}}, undo={"$inc": {"used": 1}},
            refused=Empty,
        )
    ]  # fmt: skip


# ---- write skew ----


def _keep_one_empty_other(one: str, other: str) -> list[Step]:
    return [
        Step("jars", one, guard={"beans": {"$gte": 1}}, give={"$inc": {"kept": 1}}, refused=Empty),
        Step(
            "jars", other, guard={"beans": {"$gte": 10}}, take={"$inc": {"beans": -10}}, undo={"$inc": {"beans": 10}},
            refused=Empty,
        ),
    ]  # fmt: skip


def keep_a_empty_b() -> list[Step]:
    return _keep_one_empty_other("a", "b")


def keep_b_empty_a() -> list[Step]:
    return _keep_one_empty_other("b", "a")


# ---- inserts in two orders ----


def insert_x_then_y() -> list[Step]:
    return [Step("xs", 1, insert={"n": 1}), Step("ys", 1, insert={"n": 1})]


def insert_y_then_x() -> list[Step]:
    return [Step("ys", 1, insert={"n": 2}), Step("xs", 1, insert={"n": 2})]


# ---- other outcomes in the other mode ----


def replace_holder() -> list[Step]:
    return [Step("people", 1, delete=True), Step("people", 2, insert={"login": "ada"})]


def hand_over() -> list[Step]:
    bobs = {"$set": {"login": "bob"}}
    return [
        Step("people", 2, take={"$unset": {"login": ""}}, undo=bobs),
        Step("people", 1, take=bobs, undo={"$set": {"login": "ada"}}),
    ]


def duplicate_before_guard() -> list[Step]:
    return [Step("people", 1, insert={"n": 1}), Step("wishes", 1, guard={"wanted": True}, refused=Unwilling)]


def take_and_give_by_filters() -> list[Step]:
    return [
        Step(
            "carts", 1, take={"$inc": {"lines.$[f].n": -1}}, undo={"$inc": {"lines.$[f].n": 1}},
            give={"$inc": {"gifts.$[t].n": 1}}, array_filters=[{"f.sku": "film"}, {"t.sku": "tape"}],
        )
    ]  # fmt: skip


def give_taken_value() -> list[Step]:
    return [Step("people", 2, give={"$set": {"login": "ada"}})]


ADA_AND_BOB = {"people": [{"_id": 1, "login": "ada"}, {"_id": 2, "login": "bob"}]}
LINES = [{"sku": "film", "n": 3}, {"sku": "tape", "n": 1}]

FAULTS = [
    Fault("spent takes", {"rooms": [{"_id": 1, "used": 0}], "wishes": [{"_id": 1, "wanted": False}]}, [book, leave]),
    Fault(
        "write skew",
        {"jars": [{"_id": "a", "beans": 10}, {"_id": "b", "beans": 10}]},
        [keep_a_empty_b, keep_b_empty_a],
    ),
    Fault("inserts in two orders", {"xs": [], "ys": []}, [insert_x_then_y, insert_y_then_x]),
    Fault("new holder", {"people": [{"_id": 1, "login": "ada"}]}, [replace_holder], {"people": "login"}),
    Fault("hand over", ADA_AND_BOB, [hand_over], {"people": "login"}),
    Fault(
        "duplicate before guard",
        {"people": [{"_id": 1}], "wishes": [{"_id": 1, "wanted": False}]},
        [duplicate_before_guard],
    ),
    Fault(
        "filters of take and give",
        {"carts": [{"_id": 1, "lines": LINES, "gifts": LINES}]},
        [take_and_give_by_filters],
    ),
    Fault("give of a taken value", ADA_AND_BOB, [give_taken_value], {"people": "login"}),
]
