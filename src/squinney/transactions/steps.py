"""Guarded steps: a multi-document operation as data.

The protocol keeps these fields in the documents it changes:

- `txns`: the markers, which are the ids of unfinished two-phase runs that prepared the document;
- `txn_lock`: the id of the run that holds the document exclusively;
- `txn_limit`: the common limit of the undecided shared takes of a ceiling;
- `tombs`: the tombstones, which are the ids of rolled back runs that must not prepare the document again;
- `txn_checks`: the number of native runs that only checked a guard on the document;
- `txn_stub`: the id of the undecided run that inserted the document. Readers skip such stubs: `visible(filter)`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any, cast

import bson
from bson.decimal128 import Decimal128
from bson.regex import Regex
from bson.timestamp import Timestamp

from squinney.errors import Conflict, SquinneyError
from squinney.mongo.paths import value_at
from squinney.mongo.pinned import CODEC
from squinney.mongo.schema import Collection, Document
from squinney.transactions import escrow
from squinney.transactions.errors import AlreadyExists

Refusal = type[SquinneyError] | Callable[[Document | None], SquinneyError]

PROTOCOL_FIELDS = ("txns", "txn_lock", "txn_limit", "tombs", "txn_checks", "txn_stub")
UNMARKED: Document = {"txns.0": {"$exists": False}}
# The filter for documents that no unfinished two-phase run holds: all their values are committed.
UNLOCKED: Document = {**UNMARKED, "txn_lock": None, "txn_stub": None}
CHECKED: Document = {"$inc": {"txn_checks": 1}}
SEARCHES = frozenset({"$text", "$near", "$nearSphere"})  # the server does not allow these in $nor, which finds refusals
_COLLECTION_NAME = re.compile(r"(?!system\.|.{191})[^.$\0]+(\.[^.$\0]+)*")  # with the database's name, 255 at most


@dataclass(frozen=True, slots=True)
class Step:
    """The change that an operation makes to one document, which is found by its `_id` and a guard.

    `take` is a change that the guard permits, `give` a change that needs no permission. Both are applied when the
    operation is decided. A step may instead `insert` a document under a known id, or `delete` one. A step without any
    change only checks its guard. If the guard does not match, the operation is refused with `refused`: an error class,
    or a callable that gets the document (None if it does not exist) and returns the error. `route` adds shard-key
    fields to the filter.

    A step holds its document exclusively until its run is decided. With `shared=True` other shared steps may change the
    document concurrently. Such a step must have the escrow shape (see `escrow`), and its `collection` must be the
    `Collection` that declares the direction of each number. Only a shared take is applied before the decision, so that
    no other run spends the same amount. `undo` may show the reader how a take is reverted: it must be the take with the
    signs changed. With `may_overshoot` the guard of a shared give may check a limit that concurrent gives can exceed
    together.
    """

    collection: str | Collection
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
    shared: bool = False
    may_overshoot: bool = False
    name: str = field(init=False, repr=False, compare=False)
    update: Document = field(init=False, repr=False, compare=False)  # take and give merged
    condition: Document = field(init=False, repr=False, compare=False)  # the guard, and the types of shared numbers
    limit: Document | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", getattr(self.collection, "name", self.collection))
        _require_one_kind(self)
        _require_values(self)
        if isinstance(self.refused, type) and not issubclass(self.refused, SquinneyError):
            raise TypeError(f"refused must be a SquinneyError class or a function, not {self.refused.__name__}")
        for update in (self.take, self.undo, self.give):
            if update:
                _require_operators(update)
        declared = self.collection.escrow if isinstance(self.collection, Collection) else {}
        numbers, limit = escrow.shape_of(self, declared) if self.shared else ({}, None)
        if self.may_overshoot and not self.shared:
            raise ValueError("only a shared step may overshoot: other steps hold their document exclusively")
        guarded = {"$and": [dict(self.guard), numbers]} if numbers else dict(self.guard)
        object.__setattr__(self, "update", merge(self.take or {}, self.give or {}))
        object.__setattr__(self, "condition", guarded)
        object.__setattr__(self, "limit", limit)

    @property
    def document_filter(self) -> Document:
        """The filter that finds the document, without the guard."""
        return {**self.route, "_id": self.id}

    @property
    def identity(self) -> tuple[str, bytes]:
        """The key of the document, from `identity_of`."""
        return identity_of(self.name, self.id)

    @property
    def verb(self) -> str:
        """The kind of the change: `insert`, `delete` or `update`."""
        return "insert" if self.insert is not None else "delete" if self.delete else "update"

    def refusal(self, document: Document | None) -> SquinneyError:
        """Return the error for a guard that did not match `document`."""
        if isinstance(self.refused, type):
            if self.refused is not Conflict:
                return cast(type[SquinneyError], self.refused)(document_id=str(self.id))
        elif error := self.refused(document):
            return error
        state = "does not exist" if document is None else f"does not match the guard {dict(self.guard)}"
        return Conflict(f"{self.name} {self.id!r} {state}", collection=self.name, document_id=str(self.id))

    def duplicate(self, document: Document | None) -> SquinneyError:
        """Return the error for an id or unique value that another document already has."""
        if self.refused is Conflict:
            return AlreadyExists(f"{self.name} already has a document with the id or a unique value of {self.id!r}")
        return self.refusal(document)


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one operation, at most one per document, and the result that a repeat with the same key gets."""

    steps: Sequence[Step]
    result: Any = None
    documents: frozenset[tuple[str, bytes]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "documents", frozenset(step.identity for step in self.steps))
        if len(self.documents) < len(self.steps):  # the modes could apply two steps in different orders
            counts = Counter(step.identity for step in self.steps)
            twice = next(step for step in self.steps if counts[step.identity] > 1)
            raise ValueError(f"an operation has one step per document: {twice.name} {twice.id!r} has more")


def _require_one_kind(step: Step) -> None:
    if step.undo is not None and step.take is None:
        raise ValueError("an undo needs a take")
    if (step.insert is not None) + step.delete + bool(step.take or step.give) > 1:
        raise ValueError("a step may insert, delete or update, but only one of these")
    if step.shared and (step.insert is not None or step.delete):
        raise ValueError("a step that inserts or deletes cannot be shared")
    if step.insert is None:
        return
    if step.guard or step.insert.get("_id", step.id) != step.id:
        raise ValueError("a step that inserts must use its own id and have no guard")
    if reserved := [name for name in PROTOCOL_FIELDS if step.insert.get(name) not in (None, [])]:
        raise ValueError(f"a step must not insert fields of the protocol: {', '.join(reserved)}")
    if Timestamp(0, 0) in step.insert.values():
        raise ValueError("a step must not insert an empty Timestamp: the server would replace it, in one mode only")
    if any(value_at(step.insert, path) != value for path, value in step.route.items()):
        raise ValueError("a step must insert a document that has the values of its route")


def _require_values(step: Step) -> None:
    """Reject an id or route that could match another document, and a guard that cannot be negated."""
    if not _COLLECTION_NAME.fullmatch(step.name):
        raise ValueError(f"{step.name!r} is not a valid collection name for a step")
    values = {"": step.id, **step.route}
    is_pattern = any(isinstance(value, re.Pattern | Regex) for value in values.values())
    if is_pattern or any(str(name).startswith("$") for name in _names_in(values)):
        raise ValueError("the id of a step, and each field of its route, must be a value, not a condition")
    if step.guard and (searches := SEARCHES.intersection(_names_in(step.guard))):
        raise ValueError(f"the guard of a step must not search: {', '.join(searches)}")


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from value
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _names_in(part)


def _require_operators(update: Mapping[str, Any]) -> None:
    fields_of = update if isinstance(update, Mapping) else {"": update}
    if not all(str(name).startswith("$") and isinstance(fields, Mapping) for name, fields in fields_of.items()):
        raise ValueError("a step's updates must be operators, each with its paths")
    for path in changed_paths(update):
        names = path.split(".")
        if names[0] in PROTOCOL_FIELDS:
            raise ValueError("a step must not change fields of the protocol")
        if "$" in names:
            raise ValueError(
                "a step must name array elements by array_filters: what $ matched is unknown when the run is finished"
            )


def changed_paths(update: Mapping[str, Any]) -> Iterable[str]:
    """Yield all paths that the update changes."""
    for operator, fields in update.items():
        yield from fields
        if operator == "$rename":
            yield from fields.values()


def visible(where: Document) -> Document:
    """Return the filter, extended to skip stubs: documents that an undecided two-phase run inserted."""
    return {**where, "txn_stub": None}


def identity_of(name: str, document_id: Any) -> tuple[str, bytes]:
    """Return the key of a document. All two-phase runs prepare documents in the order of these keys."""
    return name, bson.encode({"": _by_value(document_id)}, codec_options=CODEC)


def _by_value(value: Any) -> Any:
    """Return the same value for ids that the server treats as equal, such as 1 and 1.0, also inside documents."""
    if isinstance(value, str | bytes | bool | bson.ObjectId):
        return value
    if isinstance(value, Mapping):
        return {name: _by_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_by_value(part) for part in value]
    if isinstance(value, Decimal128):
        value = value.to_decimal()
    try:
        return {"$number": str(Fraction(value))}
    except (TypeError, ValueError, OverflowError):  # not a number, or infinite
        return float(value) if hasattr(value, "is_nan") else value


# ---- what a step sends to the server ----


def free_for(step: Step) -> Document:
    """Return the condition that no undecided run excludes the step from its document."""
    if not step.shared:
        return {"txn_lock": None, **UNMARKED}
    if step.limit is None:
        return {"txn_lock": None}
    return {"txn_lock": None, "$or": [UNMARKED, {"txn_limit": step.limit}]}


def native_write(step: Step) -> Document:
    """Return the step as an element of a native write command: take and give, unless a two-phase run excludes it."""
    if step.insert is not None:
        return {**step.insert, "_id": step.id}
    permitted = {**step.document_filter, "$and": [step.condition, free_for(step)]}
    if step.delete:
        return {"q": permitted, "limit": 1}
    # A step that only checks its guard must write too, or the server would detect no conflict.
    write: Document = {"q": permitted, "u": step.update or CHECKED}
    if filters := array_filters_for(step.update, step.array_filters):
        write["arrayFilters"] = filters
    return write


# ---- what a step sends in two-phase mode only ----


def prepare_filter(step: Step, txn: Any, deadline: datetime) -> Document:
    """Return the filter for preparing the document once, if the guard matches and no other run excludes the step.

    It matches neither after the deadline nor after a rollback: the server's clock and the tombstone each stop a late
    writer independently.
    """
    in_time = {"$expr": {"$lt": ["$$NOW", deadline]}}
    mine = {"txns": {"$ne": txn}, "tombs": {"$ne": txn}}
    return {**step.document_filter, "$and": [step.condition, free_for(step), mine, in_time]}


def prepare_update(step: Step, txn: Any) -> Document:
    """Return the update that sets the marker, together with the lock, or with the take of a shared step."""
    marker: Document = {"$push": {"txns": txn}}
    if not step.shared:
        return {**marker, "$set": {"txn_lock": txn}}
    if step.limit is not None:
        marker["$set"] = {"txn_limit": step.limit}
    return merge(step.take or {}, marker)


def insert_update(step: Step, txn: Any, deadline: datetime) -> list[Document]:
    """Return the pipeline that upserts the stub and fails after the deadline.

    The filter of an upsert cannot contain `$expr`, so the pipeline divides by zero instead.
    """
    stub = {**(step.insert or {}), "_id": step.id, "txn_stub": txn, "txn_lock": txn}
    one_or_error = {"$divide": [1, {"$cond": [{"$lt": ["$$NOW", deadline]}, 1, 0]}]}
    return [{"$replaceWith": {"$cond": [one_or_error, {"$literal": stub}, None]}}]


def stored_form(step: Step) -> Document:
    """Return what `recover()` needs of a step, in any process."""
    stored: Document = {
        "collection": step.name,
        "filter": step.document_filter,
        "verb": step.verb,
        "shared": step.shared,
    }
    if update := step.give if step.shared else step.update:
        stored["update"] = dict(update)
    if step.shared and step.take:
        stored["undo"] = {"$inc": {path: -amount for path, amount in step.take["$inc"].items()}}
    if filters := array_filters_for(step.update, step.array_filters):
        stored["array_filters"] = filters
    return stored


def array_filters_for(update: Mapping[str, Any], filters: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """Return the array filters if the update uses them: the server rejects unused ones."""
    used = any("$[" in path for fields in update.values() for path in fields)
    return list(filters) if filters and used else None


def merge(*updates: Mapping[str, Any]) -> Document:
    """Merge updates into one that has the same effect."""
    merged: Document = {}
    for update in updates:
        for operator, fields in update.items():
            target = merged.setdefault(operator, {})
            for path, value in fields.items():
                target[path] = _both(operator, target[path], value) if path in target else value
    return merged


def _both(operator: str, first: Any, second: Any) -> Any:
    if operator == "$inc":
        return escrow.add(first, second)
    if operator == "$push":
        return {"$each": [*_each(first), *_each(second)]}
    raise ValueError(f"a step changes one path twice with {operator}")


def _each(value: Any) -> list[Any]:
    if not (isinstance(value, dict) and "$each" in value):
        return [value]
    if len(value) > 1:
        raise ValueError("a step that pushes to one path twice cannot use $sort, $slice or $position")
    return list(value["$each"])
