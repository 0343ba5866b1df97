"""How a database differs from the prepared one, told so that two runs of the same operations can be compared."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bson import ObjectId, json_util

from squinney.mongo.schema import Document
from squinney.testing.protocol import Documents
from squinney.transactions import PROTOCOL_FIELDS

__tracebackhide__ = True
State = dict[str, dict[str, int]]  # of each collection the documents that came, and those that went, below zero
Fresh = Callable[[Any], str]  # the placeholder for something fresh
FRESH = "<fresh>"
SHORTEST_ID = 24
FRESH_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{26}|[0-9a-f]{24,}")  # ours, and those of most others


@dataclass(frozen=True)
class Change:
    """How one collection differs from the prepared one. What changed came and went."""

    came: Sequence[Document] = field(default_factory=list)
    went: Sequence[Document] = field(default_factory=list)


Changes = Mapping[str, Change]  # only of collections that differ


def came(changes: Changes) -> Documents:
    """The documents that are new or changed."""
    return {name: list(change.came) for name, change in changes.items()}


class Masks:
    """Puts placeholders in the place of what differs between two runs of the same: fresh ids, texts and times."""

    def __init__(self, documents: Documents) -> None:
        leaves = [leaf for found in documents.values() for _, leaf in _leaves(found)]
        self._known = {leaf for leaf in leaves if isinstance(leaf, ObjectId | datetime)}
        self._known |= {found for leaf in leaves if isinstance(leaf, str) for found in FRESH_ID.findall(leaf)}
        self._texts: set[str] = {leaf for leaf in leaves if isinstance(leaf, str)}
        self._learnt = False
        self._fresh: set[tuple[str, int]] = set()  # fields that hold fresh texts, and how long these are

    def learn(self, runs: Iterable[tuple[Changes, Changes]]) -> Masks:
        """Texts that two runs of the same operation both leave are no accident; all other new ones are fresh."""
        learnt = Masks({})
        learnt._known, learnt._texts, learnt._learnt = self._known, set(self._texts), True
        for one, other in ((self._texts_of(one), self._texts_of(other)) for one, other in runs):
            both = {text for _, text in one} & {text for _, text in other}
            learnt._texts |= both
            learnt._fresh |= {(name, len(text)) for name, text in one | other if text not in both | self._texts}
        return learnt

    def _texts_of(self, changes: Changes) -> set[tuple[str, str]]:
        leaves = (leaf for found in came(changes).values() for leaf in _leaves(found))
        return {(name, self._without_ids(leaf, _fresh)) for name, leaf in leaves if isinstance(leaf, str)}

    def _without_ids(self, text: str, fresh: Fresh) -> str:
        if len(text) < SHORTEST_ID:
            return text
        return FRESH_ID.sub(lambda found: found[0] if found[0] in self._known else fresh(found[0]), text)

    def state(self, changes: Changes, ignored: Iterable[str] = ()) -> State:
        """The changes, without what differs between two runs of the same."""
        told = {name: self._told(change) for name, change in changes.items() if name not in ignored}
        return {name: documents for name, documents in told.items() if documents}

    def _told(self, change: Change) -> dict[str, int]:
        counts = Counter(map(self._plain, change.came))
        counts.subtract(map(self._plain, change.went))
        return {one: count for one, count in counts.items() if count}

    def fingerprint(self, changes: Changes) -> str:
        """Two databases alike in it are alike to every check, and to what mends them.

        As `state`, but one fresh id differs from another, and a text is fresh only where one was before: an operation
        that died may have left one that tells how far it came.
        """
        numbers: dict[Any, int] = {}
        in_order = {
            name: [sorted(change.came, key=self._plain), [one["_id"] for one in change.went]]
            for name, change in sorted(changes.items())
        }
        masked = self._masked(
            in_order,
            lambda found: f"<{numbers.setdefault(found, len(numbers))}>",
            lambda name, text: (name, len(text)) in self._fresh and text not in self._texts,
        )
        return json.dumps(masked, default=json_util.default)

    def _plain(self, document: Document) -> str:
        kept = {name: value for name, value in document.items() if name not in PROTOCOL_FIELDS}
        return json.dumps(self.masked(kept), sort_keys=True, default=json_util.default)

    def masked(self, value: Any) -> Any:
        """The value with placeholders for fresh ids and times, and for every text that was not learnt."""
        return self._masked(value, _fresh, lambda _, text: self._learnt and text not in self._texts)

    def _masked(self, value: Any, fresh: Fresh, is_fresh: Callable[[str, str], bool], name: str = "") -> Any:
        if isinstance(value, str):
            return fresh(value) if is_fresh(name, self._without_ids(value, _fresh)) else self._without_ids(value, fresh)
        if isinstance(value, dict):
            names = [self._without_ids(str(one), fresh) for one in value]
            inside = [self._masked(inner, fresh, is_fresh, str(one)) for one, inner in value.items()]
            return dict(zip(names, inside, strict=True))
        if isinstance(value, list | tuple):
            return [self._masked(inner, fresh, is_fresh, name) for inner in value]
        if isinstance(value, ObjectId) and value not in self._known:
            return fresh(value)
        if isinstance(value, datetime) and value not in self._known:
            return "<time>"
        return value


def _fresh(found: Any) -> str:
    return FRESH


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """What is in a document, each with the name of its field; the names too."""
    if isinstance(value, Mapping):
        for one, inner in value.items():
            yield "", one
            yield from _leaves(inner, one)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    else:
        yield name, value
