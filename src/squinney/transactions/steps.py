"""Guarded steps: a multi-document operation as data.

One field is added to documents: `txn_checks`, which counts the runs that only checked a guard on the document.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, cast

import bson
from bson.regex import Regex

from squinney.errors import Conflict, SquinneyError
from squinney.mongo.paths import value_at
from squinney.mongo.pinned import CODEC
from squinney.mongo.schema import Collection, Document
from squinney.transactions.errors import AlreadyExists

Refusal = type[SquinneyError] | Callable[[Document | None], SquinneyError]

CHECKS_FIELD = "txn_checks"
CHECKED: Document = {"$inc": {CHECKS_FIELD: 1}}


@dataclass(frozen=True, slots=True)
class Step:
    """The change that an operation makes to one document, which is found by its `_id` and a guard.

    A step has an `update` of operators, or inserts a document under a known id (`insert`), or deletes one (`delete`).
    A step without any of these only checks its guard. If the guard does not match, the operation is refused with
    `refused`: an error class, or a callable that gets the document (None if it does not exist) and returns the error.
    `route` adds shard-key fields to the filter.
    """

    collection: str | Collection
    id: Any
    _: KW_ONLY
    guard: Mapping[str, Any] = field(default_factory=dict)
    update: Mapping[str, Any] | None = None
    insert: Mapping[str, Any] | None = None
    delete: bool = False
    array_filters: Sequence[Mapping[str, Any]] = ()
    refused: Refusal = Conflict
    route: Mapping[str, Any] = field(default_factory=dict)
    name: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", getattr(self.collection, "name", self.collection))
        _require_one_kind(self)
        _require_values(self)
        if isinstance(self.refused, type) and not issubclass(self.refused, SquinneyError):
            raise TypeError(f"refused must be a SquinneyError class or a function, not {self.refused.__name__}")
        if self.update:
            _require_operators(self.update)

    @property
    def document_filter(self) -> Document:
        """The filter that finds the document, without the guard."""
        return {**self.route, "_id": self.id}

    @property
    def identity(self) -> tuple[str, bytes]:
        """The key of the document."""
        # guard: documents of one collection have different keys
        return self.name, bson.encode({"": self.id}, codec_options=CODEC)

    @property
    def verb(self) -> str:
        """The kind of the change: `insert`, `delete` or `update`."""
        return "insert" if self.insert is not None else "delete" if self.delete else "update"

    @property
    def may_upsert(self) -> bool:
        """Whether the update may be sent as an upsert: the server allows no expressions in its filter."""
        # guard: a guard with an expression is no upsert
        return self.insert is None and not self.delete and "$expr" not in _names_in(self.guard)

    def write(self) -> Document:
        """Return the step as an element of a write command of its verb."""
        if self.insert is not None:
            return {**self.insert, "_id": self.id}
        # guard: a guard is added to the filter by id
        # guard: steps check their guard
        guarded = {**self.document_filter, "$and": [dict(self.guard)]} if self.guard else self.document_filter
        if self.delete:
            return {"q": guarded, "limit": 1}
        # A step that only checks its guard writes too, or the server would detect no conflict.
        write: Document = {"q": guarded, "u": dict(self.update or CHECKED)}
        if self.array_filters and any("$[" in path for path in changed_paths(self.update or {})):
            write["arrayFilters"] = list(self.array_filters)
        return write

    def refusal(self, document: Document | None) -> SquinneyError:
        """Return the error for a guard that did not match `document`."""
        if isinstance(self.refused, type):
            # guard: a refusal names collection and document
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
        # guard: a document has one step
        if len(self.documents) < len(self.steps):  # each guard describes the document before the operation
            counts = Counter(step.identity for step in self.steps)
            twice = next(step for step in self.steps if counts[step.identity] > 1)
            raise ValueError(f"an operation has one step per document: {twice.name} {twice.id!r} has more")

    def also(self, steps: Sequence[Step]) -> Plan:
        """Return the plan with further steps of the caller, which happen together with it or not at all."""
        _require_list(steps)
        return Plan([*self.steps, *steps], self.result) if steps else self


def _require_list(further: Sequence[Step]) -> None:
    # guard: an iterator, which a second try would find empty, is no list of further steps
    if not isinstance(further, list | tuple) or not all(isinstance(step, Step) for step in further):
        raise TypeError("also must be a list of steps")


def require_apart(also: Sequence[Step], own: Container[str]) -> None:
    """Refuse further steps on collections in which the operation itself changes documents."""
    _require_list(also)
    if taken := next((step for step in also if step.name in own), None):
        raise ValueError(f"a further step must not be on {taken.name}: the operation itself changes documents there")


def _require_one_kind(step: Step) -> None:
    if (step.insert is not None) + step.delete + bool(step.update) > 1:
        raise ValueError("a step may insert, delete or update, but only one of these")
    if step.insert is None:
        return
    if step.guard or step.insert.get("_id", step.id) != step.id:
        raise ValueError("a step that inserts must use its own id and have no guard")
    if CHECKS_FIELD in step.insert:
        raise ValueError(f"a step must not insert the field {CHECKS_FIELD}")
    if any(value_at(step.insert, path) != value for path, value in step.route.items()):
        raise ValueError("a step must insert a document that has the values of its route")


def _require_values(step: Step) -> None:
    """Reject an id or route that could match another document."""
    values = {"": step.id, **step.route}
    is_pattern = any(isinstance(value, re.Pattern | Regex) for value in values.values())
    # guard: an id that is a condition is rejected
    if is_pattern or any(str(name).startswith("$") for name in _names_in(values)):
        raise ValueError("the id of a step, and each field of its route, must be a value, not a condition")


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
        raise ValueError("a step's update must be operators, each with its paths")
    for path in changed_paths(update):
        names = path.split(".")
        # guard: steps cannot change the field of the checks
        if names[0] == CHECKS_FIELD:
            raise ValueError(f"a step must not change the field {CHECKS_FIELD}")
        if "$" in names:
            raise ValueError("a step must name array elements by array_filters, not by the positional $")


def changed_paths(update: Mapping[str, Any]) -> Iterable[str]:
    """Yield all paths that the update changes."""
    for operator, fields in update.items():
        yield from fields
        if operator == "$rename":
            yield from fields.values()
