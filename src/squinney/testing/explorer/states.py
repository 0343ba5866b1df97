"""Describe how a database differs from the prepared one, so that two runs of the same operations can be compared."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bson import ObjectId, json_util
from bson.timestamp import Timestamp

from squinney.mongo.schema import Document
from squinney.transactions import CHECKS_FIELD

__tracebackhide__ = True
Documents = Mapping[str, list[Document]]  # by collection
State = dict[str, dict[str, int]]  # by collection and document, how many were added; negative: how many were removed
Placeholder = Callable[[Any], str]  # returns the placeholder for a fresh value
FRESH = "<fresh>"
MIN_ID_LENGTH = 24
FRESH_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{26}|[0-9a-f]{24,}")  # ids as `new_id` makes them, and hexadecimal ones


@dataclass(frozen=True)
class CollectionChange:
    """How one collection differs from the prepared one. A changed document is in both lists: after and before."""

    added: Sequence[Document] = field(default_factory=list)
    removed: Sequence[Document] = field(default_factory=list)


Changes = Mapping[str, CollectionChange]  # by collection, only those that differ


def added_documents(changes: Changes) -> Documents:
    """Return the documents that are new or changed, by collection."""
    return {name: list(change.added) for name, change in changes.items()}


class Masks:
    """Replaces what differs between two runs of the same operations by placeholders: fresh ids, texts and times."""

    def __init__(self, documents: Documents) -> None:
        leaves = [leaf for each in documents.values() for _, leaf in _leaves(each)]
        self._known = {leaf for leaf in leaves if isinstance(leaf, ObjectId | datetime | Timestamp)}
        self._known |= {text for leaf in leaves if isinstance(leaf, str) for text in FRESH_ID.findall(leaf)}
        self._texts: set[str] = {leaf for leaf in leaves if isinstance(leaf, str)}
        self._learnt = False
        self._fresh: set[tuple[str, int]] = set()  # fields that hold fresh texts, and the length of these texts
        self._random: set[str] = set()  # fields that hold random numbers, such as the hash of a fresh id

    def learn(self, runs: Iterable[tuple[Changes, Changes]]) -> Masks:
        """Return masks that know what is fresh: texts and numbers that only one of two runs of an operation writes."""
        learnt = Masks({})
        learnt._known, learnt._texts, learnt._learnt = self._known, set(self._texts), True
        for both_runs in runs:
            first, second = map(self._texts_of, both_runs)
            both = {text for _, text in first} & {text for _, text in second}
            learnt._texts |= both
            learnt._fresh |= {(name, len(text)) for name, text in first | second if text not in both | self._texts}
            first_numbers, second_numbers = map(_numbers_of, both_runs)
            learnt._random |= {name for name, _ in first_numbers ^ second_numbers}
        return learnt

    def _texts_of(self, changes: Changes) -> set[tuple[str, str]]:
        leaves = (leaf for documents in added_documents(changes).values() for leaf in _leaves(documents))
        return {(name, self._without_ids(leaf, _fresh)) for name, leaf in leaves if isinstance(leaf, str)}

    def _without_ids(self, text: str, placeholder: Placeholder) -> str:
        if len(text) < MIN_ID_LENGTH:
            return text
        return FRESH_ID.sub(lambda match: match[0] if match[0] in self._known else placeholder(match[0]), text)

    def state(self, changes: Changes, ignored: Iterable[str] = ()) -> State:
        """Return the changes without what differs between two runs of the same operations."""
        counts = {name: self._counts(change) for name, change in changes.items() if name not in ignored}
        return {name: documents for name, documents in counts.items() if documents}

    def _counts(self, change: CollectionChange) -> dict[str, int]:
        counts = Counter(map(self._as_text, change.added))
        counts.subtract(map(self._as_text, change.removed))
        return {text: count for text, count in counts.items() if count}

    def fingerprint(self, changes: Changes) -> str:
        """Return a text that is equal for two databases only if every check and repair treats them alike.

        It is like `state`, but distinguishes fresh ids from each other. A text counts as fresh only in a field where
        `learn` found one: a text that a dead operation left may show how far the operation got.
        """
        added = [leaf for change in changes.values() for _, leaf in _leaves(change.added)]
        times = sorted({leaf for leaf in added if isinstance(leaf, Timestamp)})  # checks may depend on their order
        numbers: dict[Any, int] = {time: number for number, time in enumerate(times)}
        in_order = {
            name: [sorted(change.added, key=self._as_text), [document["_id"] for document in change.removed]]
            for name, change in sorted(changes.items())
        }
        masked = self._masked(
            in_order,
            lambda fresh_id: f"<{numbers.setdefault(fresh_id, len(numbers))}>",
            lambda name, text: (name, len(text)) in self._fresh and text not in self._texts,
        )
        return json.dumps(masked, default=json_util.default)

    def _as_text(self, document: Document) -> str:
        kept = {name: value for name, value in document.items() if name != CHECKS_FIELD}
        return json.dumps(self.masked(kept), sort_keys=True, default=json_util.default)

    def masked(self, value: Any) -> Any:
        """Return the value with placeholders for fresh ids and times and, after `learn`, for fresh texts."""
        return self._masked(value, _fresh, lambda _, text: self._learnt and text not in self._texts)

    def _masked(
        self, value: Any, placeholder: Placeholder, is_fresh: Callable[[str, str], bool], name: str = ""
    ) -> Any:
        if isinstance(value, str):
            if is_fresh(name, self._without_ids(value, _fresh)):
                return placeholder(value)
            return self._without_ids(value, placeholder)
        if isinstance(value, dict):
            names = [self._without_ids(str(key), placeholder) for key in value]
            inside = [self._masked(inner, placeholder, is_fresh, str(key)) for key, inner in value.items()]
            return dict(zip(names, inside, strict=True))
        if isinstance(value, list | tuple):
            return [self._masked(inner, placeholder, is_fresh, name) for inner in value]
        if name in self._random and _is_number(value):
            return placeholder(value)
        if isinstance(value, ObjectId | Timestamp) and value not in self._known:
            return placeholder(value)
        if isinstance(value, datetime) and value not in self._known:
            return "<time>"
        return value


def _fresh(value: Any) -> str:
    return FRESH


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _numbers_of(changes: Changes) -> set[tuple[str, int]]:
    leaves = (leaf for documents in added_documents(changes).values() for leaf in _leaves(documents))
    return {(name, leaf) for name, leaf in leaves if _is_number(leaf)}


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value in a document with the name of its field, and every field name with an empty name."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield "", key
            yield from _leaves(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    else:
        yield name, value
