"""Guarded steps: an operation over several documents, as data.

Fields that the protocol keeps in the documents it works on:

- `txns`: markers of unfinished two-phase runs;
- `txn_lock`: the one run that has the document to itself;
- `txn_limit`: the limit that the undecided shared takes of a ceiling keep;
- `tombs`: runs that `recover()` rolled back and that may not come back;
- `txn_checks`: counts native runs that only guarded the document;
- `txn_stub`: an inserted document that is not committed yet. Readers skip it: `visible(filter)`.
"""

from __future__ import annotations

import re
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
# A filter: no two-phase run has the document in hand, so its figures are decided.
UNLOCKED: Document = {**UNMARKED, "txn_lock": None, "txn_stub": None}
CHECKED: Document = {"$inc": {"txn_checks": 1}}
SEARCHES = frozenset({"$text", "$near", "$nearSphere"})  # the server cannot say that a document does not match them
_COLLECTION_NAME = re.compile(r"(?!system\.|.{191})[^.$\0]+(\.[^.$\0]+)*")  # with the database's, 255 at the most


@dataclass(frozen=True, slots=True)
class Step:
    """What an operation does to one document, found by its `_id` and a guard.

    `take` is what the guard permits, `give` what needs no permission; both happen when the operation is decided. A step
    may instead `insert` a document under an id known beforehand, or `delete` one; with neither, it only guards. Where
    the guard does not match, the operation is refused with `refused`: an error class, or a callable that gets the
    document (None where there is none) and returns the error. `route` adds shard-key fields to the filter.

    A step has its document to itself until its run is decided. `shared=True` lets it go beside others, in the escrow
    shape alone (see `escrow`), on numbers whose direction its `Collection` declares: then the collection is given
    itself, not its name. Only a shared take happens before the decision, so that nobody else counts on it. `undo` may
    say how it is taken back, for the reader: it must be the take with the signs changed. `may_overshoot` lets a shared
    give look at a limit on the other side, which gives that are under way at once may pass.
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
    update: Document = field(init=False, repr=False, compare=False)  # take and give as one
    condition: Document = field(init=False, repr=False, compare=False)  # the guard, and what shared numbers must be
    limit: Document | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", getattr(self.collection, "name", self.collection))
        _require_one_kind(self)
        _require_values(self)
        for update in (self.take, self.undo, self.give):
            if update:
                _require_operators(update)
        declared = self.collection.escrow if isinstance(self.collection, Collection) else {}
        numbers, limit = escrow.shape_of(self, declared) if self.shared else ({}, None)
        if self.may_overshoot and not self.shared:
            raise ValueError("only a shared step may overshoot: others have their document to themselves")
        guarded = {"$and": [dict(self.guard), numbers]} if numbers else dict(self.guard)
        object.__setattr__(self, "update", merge(self.take or {}, self.give or {}))
        object.__setattr__(self, "condition", guarded)
        object.__setattr__(self, "limit", limit)

    @property
    def document_filter(self) -> Document:
        """The filter that finds the document alone."""
        return {**self.route, "_id": self.id}

    @property
    def identity(self) -> tuple[str, bytes]:
        """Which document it is, as `identity_of`."""
        return identity_of(self.name, self.id)

    @property
    def verb(self) -> str:
        """Insert, delete or update."""
        return "insert" if self.insert is not None else "delete" if self.delete else "update"

    def refusal(self, document: Document | None) -> SquinneyError:
        """The error to raise where the guard did not match."""
        if isinstance(self.refused, type):
            if self.refused is not Conflict:
                return cast(type[SquinneyError], self.refused)(document_id=str(self.id))
        elif error := self.refused(document):
            return error
        state = "is not there" if document is None else f"is not as the step asks: {dict(self.guard)}"
        return Conflict(f"{self.name} {self.id!r} {state}", collection=self.name, document_id=str(self.id))

    def taken(self, document: Document | None) -> SquinneyError:
        """The error to raise where the step's id or unique value is another document's."""
        if self.refused is Conflict:
            return AlreadyExists(f"{self.name} has a document like {self.id!r} already")
        return self.refusal(document)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps, of which no two touch one document, and what a repeat with the same key is answered."""

    steps: Sequence[Step]
    result: Any = None
    documents: frozenset[tuple[str, bytes]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "documents", frozenset(step.identity for step in self.steps))
        if len(self.documents) < len(self.steps):  # neither mode could say which step comes first
            raise ValueError("an operation has one step per document")


def _require_one_kind(step: Step) -> None:
    if step.undo is not None and step.take is None:
        raise ValueError("an undo needs its take")
    if (step.insert is not None) + step.delete + bool(step.take or step.give) > 1:
        raise ValueError("a step inserts, deletes or updates: one of the three")
    if step.shared and (step.insert is not None or step.delete):
        raise ValueError("a step that inserts or deletes has its document to itself: it cannot be shared")
    if step.insert is None:
        return
    if step.guard or step.insert.get("_id", step.id) != step.id:
        raise ValueError("a step inserts under its own id, and has nothing to guard")
    if reserved := [name for name in PROTOCOL_FIELDS if step.insert.get(name) not in (None, [])]:
        raise ValueError(f"a step inserts no fields of the protocol: {', '.join(reserved)}")
    if Timestamp(0, 0) in step.insert.values():
        raise ValueError("a step inserts no empty Timestamp: the server would replace it, in one mode only")
    if any(value_at(step.insert, path) != value for path, value in step.route.items()):
        raise ValueError("a step inserts a document that has the values of its route")


def _require_values(step: Step) -> None:
    """Refuse what would find another document than the one meant, or could not be judged."""
    if not _COLLECTION_NAME.fullmatch(step.name):
        raise ValueError(f"{step.name!r} is no name of a collection that a step can change")
    values = {"": step.id, **step.route}
    is_pattern = any(isinstance(value, re.Pattern | Regex) for value in values.values())
    if is_pattern or any(str(name).startswith("$") for name in _names_in(values)):
        raise ValueError("the id of a step, and what is in its route, is a value, not a condition")
    if step.guard and (searches := SEARCHES.intersection(_names_in(step.guard))):
        raise ValueError(f"the guard of a step asks for values, and does not search: {', '.join(searches)}")


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
        raise ValueError("a step's updates are operators only, each with its paths")
    for path in changed_paths(update):
        names = path.split(".")
        if names[0] in PROTOCOL_FIELDS:
            raise ValueError("a step changes no fields of the protocol")
        if "$" in names:
            raise ValueError(
                "a step names elements of an array by array_filters: what $ found is not known to the finish"
            )


def changed_paths(update: Mapping[str, Any]) -> Iterable[str]:
    """All paths that the update changes."""
    for operator, fields in update.items():
        yield from fields
        if operator == "$rename":
            yield from fields.values()


def visible(where: Document) -> Document:
    """The filter, without documents that an unfinished two-phase run has only begun to insert."""
    return {**where, "txn_stub": None}


def identity_of(name: str, document_id: Any) -> tuple[str, bytes]:
    """What tells one document from another; also the one order in which documents are taken."""
    return name, bson.encode({"": _by_value(document_id)}, codec_options=CODEC)


def _by_value(value: Any) -> Any:
    """The same for ids that the server takes for the same: 1 and 1.0, also within documents."""
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
    except (TypeError, ValueError, OverflowError):  # no number, or infinite
        return float(value) if hasattr(value, "is_nan") else value


# ---- what a step sends, in either mode ----


def free_for(step: Step) -> Document:
    """No undecided run is in the way."""
    if not step.shared:
        return {"txn_lock": None, **UNMARKED}
    if step.limit is None:
        return {"txn_lock": None}
    return {"txn_lock": None, "$or": [UNMARKED, {"txn_limit": step.limit}]}


def native_write(step: Step) -> Document:
    """The step as an element of its command: take and give at once, where no two-phase run excludes it."""
    if step.insert is not None:
        return {**step.insert, "_id": step.id}
    permitted = {**step.document_filter, "$and": [step.condition, free_for(step)]}
    if step.delete:
        return {"q": permitted, "limit": 1}
    # A step that only guards must write too, or the server would see no conflict.
    write: Document = {"q": permitted, "u": step.update or CHECKED}
    if filters := array_filters_for(step.update, step.array_filters):
        write["arrayFilters"] = filters
    return write


# ---- what a step sends, in two-phase mode ----


def prepare_filter(step: Step, txn: Any, deadline: datetime) -> Document:
    """Found, permitted, not held by another, not prepared before; and neither too late nor rolled back: a late writer
    is stopped by the server's clock and by the tombstone, each by itself.
    """
    in_time = {"$expr": {"$lt": ["$$NOW", deadline]}}
    mine = {"txns": {"$ne": txn}, "tombs": {"$ne": txn}}
    return {**step.document_filter, "$and": [step.condition, free_for(step), mine, in_time]}


def prepare_update(step: Step, txn: Any) -> Document:
    """The marker, with the lock; or with the take, where the step is shared."""
    marker: Document = {"$push": {"txns": txn}}
    if not step.shared:
        return {**marker, "$set": {"txn_lock": txn}}
    if step.limit is not None:
        marker["$set"] = {"txn_limit": step.limit}
    return merge(step.take or {}, marker)


def insert_update(step: Step, txn: Any, deadline: datetime) -> list[Document]:
    """The stub, as an upsert that the server refuses after the deadline (an upsert's filter may hold no `$expr`)."""
    stub = {**(step.insert or {}), "_id": step.id, "txn_stub": txn, "txn_lock": txn}
    one_or_error = {"$divide": [1, {"$cond": [{"$lt": ["$$NOW", deadline]}, 1, 0]}]}
    return [{"$replaceWith": {"$cond": [one_or_error, {"$literal": stub}, None]}}]


def stored_form(step: Step) -> Document:
    """All that `recover()` needs of a step, in any process."""
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
        return escrow.added(first, second)
    if operator == "$push":
        return {"$each": [*_each(first), *_each(second)]}
    raise ValueError(f"a step changes one path twice with {operator}")


def _each(value: Any) -> list[Any]:
    if not (isinstance(value, dict) and "$each" in value):
        return [value]
    if len(value) > 1:
        raise ValueError("a step pushes to one path twice, which leaves no place for a $sort, $slice or $position")
    return list(value["$each"])
