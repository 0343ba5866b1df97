"""Guarded steps: an operation over several documents, as data.

Fields that the protocol keeps in the documents it works on:

- `txns`: markers of unfinished two-phase runs;
- `tombs`: runs that were rolled back by `recover()` and may not come back;
- `txn_lock`: the run that excludes all others (its step does not commute, or its document is not there yet);
- `txn_checks`: counts native runs that only guarded the document;
- `txn_stub`: an inserted document that is not committed yet. Readers skip it: `visible(filter)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, cast

import bson

from squinney.errors import Conflict, SquinneyError
from squinney.mongo.schema import Document
from squinney.transactions.errors import AlreadyExists

Refusal = type[SquinneyError] | Callable[[Document | None], SquinneyError]

# A filter: no two-phase run has the document in hand, so its figures are decided.
AT_REST: Document = {"txns.0": {"$exists": False}, "txn_lock": None, "txn_stub": None}
COMMUTING = {"$inc", "$push", "$pull"}
PLACED = {"$position", "$slice"}  # what such a push leaves depends on what else is in the array


@dataclass(frozen=True, slots=True)
class Step:
    """What an operation does to one document, found by its `_id` and a guard.

    `take` is what must be able to fail, with its `undo`; `give` is what cannot fail and happens only when the operation
    is decided. A step may instead `insert` a document under an id known beforehand, or `delete` one. Where the guard
    does not match, the operation is refused with `refused`: an error class, or a callable that gets the document (None
    where there is none) and returns the error. `route` adds shard-key fields to the filter.

    A two-phase run gives later than it looks at the guard, so a step that gives to what its guard looks at has the
    document to itself until then: no two runs pass one limit. `may_overshoot` lets such runs in together, for a limit
    with room above it.
    """

    collection: str
    id: Any
    _: KW_ONLY
    guard: Mapping[str, Any] = field(default_factory=dict)
    take: Mapping[str, Any] | None = None
    undo: Mapping[str, Any] | None = None
    give: Mapping[str, Any] | None = None
    insert: Mapping[str, Any] | None = None
    delete: bool = False
    array_filters: Sequence[Mapping[str, Any]] = ()
    refused: Refusal = Conflict
    route: Mapping[str, Any] = field(default_factory=dict)
    may_overshoot: bool = False
    exclusive: bool = field(init=False, repr=False, compare=False)  # it must have its document to itself

    def __post_init__(self) -> None:
        if (self.take is None) != (self.undo is None):
            raise ValueError("a take needs its undo, and an undo its take")
        if (self.insert is not None) + self.delete + bool(self.take or self.give) > 1:
            raise ValueError("a step inserts, deletes or updates: one of the three")
        if self.insert is not None and (self.guard or self.insert.get("_id", self.id) != self.id):
            raise ValueError("a step inserts under its own id, and has nothing to guard")
        for update in (self.take, self.undo, self.give):
            if update is not None and not all(operator.startswith("$") for operator in update):
                raise ValueError("a step's updates are operators only")
        if self.take and self.give and _changes_twice(self.take, self.give):
            raise ValueError(
                "a step's take and give change one path, which no one update can: only two $inc or $push can"
            )
        object.__setattr__(self, "exclusive", _is_exclusive(self))

    @property
    def place(self) -> Document:
        """The filter that finds the document alone."""
        return {"_id": self.id, **self.route}

    def refusal(self, document: Document | None) -> SquinneyError:
        """The error to raise where the guard did not match."""
        if isinstance(self.refused, type):
            return cast(type[SquinneyError], self.refused)(document_id=str(self.id))
        return self.refused(document)

    def taken(self, document: Document | None) -> SquinneyError:
        """The error to raise where the step's id or unique value is another document's."""
        if self.refused is Conflict:
            return AlreadyExists(f"{self.collection} has a document like {self.id!r} already")
        return self.refusal(document)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps, and what a repeat with the same key is answered."""

    steps: Sequence[Step]
    result: Any = None


def _is_exclusive(step: Step) -> bool:
    """Whether the step does not commute with others.

    Nor does one that only guards, or gives to what it guards: what it looked at must still be so when it is decided.
    Nor one that takes from a value it names: that may be another's, who is not decided, and who takes it back.
    """
    updates = [update for update in (step.take, step.undo, step.give) if update]
    only_guards = not updates and step.insert is None
    if step.delete or only_guards or not all(_commutes(update) for update in updates):
        return True
    if step.guard and step.take and _takes_from_what_it_names(step):
        return True
    return bool(step.guard and step.give and not step.may_overshoot) and _gives_to_what_it_guards(step)


def _changes_twice(take: Mapping[str, Any], give: Mapping[str, Any]) -> bool:
    """Whether the two meet in a path; native mode sends them as one update."""
    taken = [(operator, path) for operator, fields in take.items() for path in fields]
    given = [(operator, path) for operator, fields in give.items() for path in fields]
    return any(
        _meet(one[1], other[1]) and not (one == other and one[0] in ("$inc", "$push"))
        for one in taken
        for other in given
    )


def _takes_from_what_it_names(step: Step) -> bool:
    named = [name for name, value in step.guard.items() if not isinstance(value, dict) and not name.startswith("$")]
    return any(_meet(name, path) for name in named for fields in (step.take or {}).values() for path in fields)


def _gives_to_what_it_guards(step: Step) -> bool:
    given = [path for fields in (step.give or {}).values() for path in fields]
    return any(_meet(looked_at, path) for looked_at in _paths(step.guard) for path in given)


def _paths(guard: Mapping[str, Any]) -> Iterator[str]:
    """What the guard looks at. The empty path, of an `$expr` for instance, is the whole document."""
    for name, value in guard.items():
        if name in ("$and", "$or", "$nor"):
            yield from (path for part in value for path in _paths(part))
        else:
            yield "" if name.startswith("$") else name


def _meet(looked_at: str, given: str) -> bool:
    """Whether one path leads to or through the other; a place in an array may be any place."""
    pairs = zip(looked_at.split("."), given.split("."), strict=False)
    return not looked_at or all(one == other or _is_place(one) or _is_place(other) for one, other in pairs)


def _is_place(name: str) -> bool:
    return name.isdigit() or name.startswith("$")


def _commutes(update: Mapping[str, Any]) -> bool:
    """Whether the update leaves the same whatever others come before and after it."""
    pushed = update.get("$push", {}).values()
    return COMMUTING.issuperset(update) and not any(
        PLACED & value.keys() for value in pushed if isinstance(value, dict)
    )


def visible(where: Document) -> Document:
    """The filter, without documents that an unfinished two-phase run has only begun to insert."""
    return {**where, "txn_stub": None}


def identity(step: Step) -> tuple[str, bytes]:
    """What tells one document from another; also the one order in which documents are taken."""
    return step.collection, bson.encode({"": step.id})


def require_one_step_per_document(steps: Sequence[Step]) -> None:
    """Refuse a plan that touches a document twice: neither mode could say which step comes first."""
    if len({identity(step) for step in steps}) < len(steps):
        raise ValueError("an operation has one step per document")


# ---- what a step sends, in native mode ----


def native_filter(step: Step) -> Document:
    """Found, permitted, and not held by a two-phase run that excludes it."""
    protocol: Document = {"txn_lock": None}
    if step.exclusive:
        protocol["txns.0"] = {"$exists": False}
    return {**step.place, "$and": [dict(step.guard), protocol]}


def native_update(step: Step) -> Document:
    """Take and give at once. A step that only guards must write too, or the server would see no conflict."""
    return merge(step.take or {}, step.give or {}) or {"$inc": {"txn_checks": 1}}


# ---- what a step sends, in two-phase mode ----


def not_stopped(txn: Any, deadline: datetime) -> Document:
    """What keeps a late writer out: the server's clock, and the tombstone."""
    return {"tombs": {"$ne": txn}, "$expr": {"$lt": ["$$NOW", deadline]}}


def prepare_filter(step: Step, txn: Any, deadline: datetime) -> Document:
    """Found, permitted, not held by another, not prepared before, not too late."""
    protocol: Document = {"txns": {"$ne": txn}, "txn_lock": None, **not_stopped(txn, deadline)}
    if step.exclusive:
        protocol["txns.0"] = {"$exists": False}
    return {**step.place, "$and": [dict(step.guard), protocol]}


def prepare_update(step: Step, txn: Any) -> Document:
    """The take with the marker; for a give alone, just the marker."""
    marker: Document = {"$push": {"txns": txn}}
    if step.exclusive:
        marker["$set"] = {"txn_lock": txn}
    return merge(step.take or {}, marker)


def insert_update(step: Step, txn: Any, deadline: datetime) -> list[Document]:
    """The stub, as an upsert that the server refuses after the deadline (an upsert's filter may hold no `$expr`)."""
    stub = {**(step.insert or {}), "_id": step.id, "txn_stub": txn, "txn_lock": txn}
    one_or_error = {"$divide": [1, {"$cond": [{"$lt": ["$$NOW", deadline]}, 1, 0]}]}
    return [{"$replaceWith": {"$cond": [one_or_error, {"$literal": stub}, None]}}]


def finish_update(stored: Mapping[str, Any], txn: Any) -> Document:
    """Give, and let go of the document, in one update."""
    return merge(stored.get("give") or {}, _release(stored, txn))


def undo_update(stored: Mapping[str, Any], txn: Any) -> Document:
    """Take back what was taken, and let go of the document, in one update."""
    return merge(stored.get("undo") or {}, _release(stored, txn))


def _release(stored: Mapping[str, Any], txn: Any) -> Document:
    if stored["does"] == "insert":
        return {"$unset": {"txn_stub": "", "txn_lock": ""}}
    release: Document = {"$pull": {"txns": txn}}
    if stored["exclusive"]:
        release["$unset"] = {"txn_lock": ""}
    return release


def stored_form(step: Step) -> Document:
    """All that `recover()` needs of a step, in any process."""
    does = "insert" if step.insert is not None else "delete" if step.delete else "update"
    stored: Document = {"collection": step.collection, "place": step.place, "does": does, "exclusive": step.exclusive}
    for name in ("undo", "give"):
        if value := getattr(step, name):
            stored[name] = dict(value)
    if step.array_filters:
        stored["array_filters"] = [dict(condition) for condition in step.array_filters]
    return stored


def array_filters_for(update: Mapping[str, Any], filters: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """The array filters where the update uses them: the server refuses unused ones."""
    used = any("$[" in path for fields in update.values() for path in fields)
    return list(filters) if filters and used else None


def merge(*updates: Mapping[str, Any]) -> Document:
    """One update that does what all of them do."""
    merged: Document = {}
    for update in updates:
        for operator, fields in update.items():
            target = merged.setdefault(operator, {})
            for path, value in fields.items():
                target[path] = _both(operator, target[path], value) if path in target else value
    return merged


def _both(operator: str, first: Any, second: Any) -> Any:
    if operator == "$inc":
        return first + second
    if operator == "$push":
        return {"$each": [*_each(first), *_each(second)]}
    raise ValueError(f"a step changes one path twice with {operator}")


def _each(value: Any) -> list[Any]:
    if not (isinstance(value, dict) and "$each" in value):
        return [value]
    if len(value) > 1:
        raise ValueError("a step pushes to one path twice, which leaves no place for a $sort, $slice or $position")
    return list(value["$each"])
