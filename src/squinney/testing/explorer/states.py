"""The prepared database: brought back before each schedule, and compared after it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from bson import ObjectId, json_util
from pymongo import WriteConcern
from pymongo.monitoring import CommandListener, CommandStartedEvent

from squinney.mongo.schema import Db, Document
from squinney.testing.explorer.actor import WRITES
from squinney.testing.protocol import Documents
from squinney.transactions import PROTOCOL_FIELDS

State = dict[str, list[str]]
FRESH = "<fresh>"
FRESH_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{26}|[0-9a-f]{24,}")  # ours, and those of most others


class Touched(CommandListener):
    """Remembers the collections that a client wrote to."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name in WRITES:
            self.names.add(event.command[event.command_name])

    def succeeded(self, event: object) -> None:
        pass

    def failed(self, event: object) -> None:
        pass


class Snapshot:
    """All documents of a database."""

    def __init__(self, db: Db) -> None:
        names = [name for name in db.list_collection_names() if not name.startswith("system.")]
        self.documents = {name: list(db[name].find()) for name in names}
        leaves = [leaf for documents in self.documents.values() for leaf in _leaves(documents)]
        self._known = {leaf for leaf in leaves if isinstance(leaf, ObjectId | datetime)}
        self._known |= {found for leaf in leaves if isinstance(leaf, str) for found in FRESH_ID.findall(leaf)}
        self._texts: set[str] = {leaf for leaf in leaves if isinstance(leaf, str)}
        self._learnt = False

    def learn(self, one: Documents, other: Documents) -> None:
        """Texts that two runs of the same operation both leave are no accident; all other new ones are fresh."""
        self._learnt = True
        self._texts |= self._texts_of(one) & self._texts_of(other)

    def _texts_of(self, documents: Documents) -> set[str]:
        leaves = (leaf for found in documents.values() for leaf in _leaves(found))
        return {self._without_ids(leaf, lambda found: FRESH) for leaf in leaves if isinstance(leaf, str)}

    def _without_ids(self, text: str, fresh: Callable[[Any], str]) -> str:
        return FRESH_ID.sub(lambda found: found[0] if found[0] in self._known else fresh(found[0]), text)

    def restore(self, db: Db, names: Iterable[str]) -> None:
        """Bring the named collections back. The last write waits for the majority, and so for all before it."""
        writes = [name for name in names for _ in range(2 if self.documents.get(name) else 1)]
        fast = db.with_options(write_concern=WriteConcern(w=1))
        for number, name in enumerate(writes):
            target = (db if number == len(writes) - 1 else fast)[name]
            if number and writes[number - 1] == name:
                target.insert_many(self.documents[name])
            else:
                target.delete_many({})

    def read(self, db: Db, changed: Iterable[str]) -> Documents:
        """All documents of the database, of which only the named collections may have changed."""
        return {**self.documents, **{name: list(db[name].find()) for name in changed}}

    def state(self, documents: Documents) -> State:
        """The documents without what differs between two runs of the same: fresh ids and times."""
        return {name: sorted(map(self._plain, found)) for name, found in documents.items() if found}

    def fingerprint(self, documents: Documents) -> str:
        """As `state`, but one fresh id differs from another: two databases alike in it are alike to every check."""
        numbers: dict[Any, int] = {}
        number = lambda found: f"<{numbers.setdefault(found, len(numbers))}>"  # noqa: E731
        in_order = {name: sorted(found, key=self._plain) for name, found in sorted(documents.items())}
        return json.dumps(self.masked(in_order, number), default=json_util.default)

    def _plain(self, document: Document) -> str:
        kept = {name: value for name, value in document.items() if name not in PROTOCOL_FIELDS}
        return json.dumps(self.masked(kept), sort_keys=True, default=json_util.default)

    def masked(self, value: Any, fresh: Callable[[Any], str] = lambda found: FRESH) -> Any:
        """The value with placeholders for fresh ids and times."""
        if isinstance(value, Mapping):
            return {self._without_ids(str(name), fresh): self.masked(inner, fresh) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.masked(inner, fresh) for inner in value]
        if isinstance(value, str):
            is_fresh = self._learnt and self._without_ids(value, lambda found: FRESH) not in self._texts
            return fresh(value) if is_fresh else self._without_ids(value, fresh)
        if isinstance(value, ObjectId) and value not in self._known:
            return fresh(value)
        if isinstance(value, datetime) and value not in self._known:
            return "<time>"
        return value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value
