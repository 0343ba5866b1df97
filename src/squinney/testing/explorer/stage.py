"""The prepared database: brought back before each schedule, and looked at after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from bson import encode
from pymongo.read_concern import ReadConcern

from squinney.mongo.pinned import CODEC
from squinney.mongo.schema import Db, Document
from squinney.testing.calls import call
from squinney.testing.explorer.actor import Outcome
from squinney.testing.explorer.states import Change, Changes, Masks
from squinney.testing.explorer.touched import Touched
from squinney.testing.protocol import Documents

__tracebackhide__ = True  # pytest shows the line of the test, then what is wrong; `--full-trace` shows all
Act = Callable[..., object]
Ran = tuple[Sequence[Outcome], Changes]  # what operations answered one after the other, and what they left
KEPT_SECONDS = 60  # a prepared database becomes stale, where documents expire
ALONE_SECONDS = 60
MANY = 10_000  # documents of one answer


class NeverEnds(AssertionError):
    """An operation that goes on for ever even when it has the database to itself."""


class Stage:
    """A database as `prepare` left it, and how it differs from that now."""

    def __init__(self, db: Db, prepare: Act | None, settle: Act, touched: Touched) -> None:
        self.db = db
        self.settle = settle
        self._prepare = prepare
        self._touched = touched
        self.prepared: Any = prepare(db) if prepare else None
        self.documents: Documents = {name: list(db[name].find()) for name in _names(db)}
        self.masks = Masks(self.documents)
        self._encoded = {name: _encoded(found) for name, found in self.documents.items()}
        self.sound: dict[object, Changes] = {}  # what was found in order, by what it was found from
        self._changes: dict[str, Change] = {}
        self._alone: dict[object, Ran] = {}
        self._until = time.monotonic() + KEPT_SECONDS
        touched.names.clear()

    def serves(self, prepare: Act | None, settle: Act) -> bool:
        """Whether it is what this function prepares, and still fresh."""
        return (self._prepare, self.settle) == (prepare, settle) and time.monotonic() < self._until

    def look(self) -> Changes:
        """How it differs now. Only collections that were written to since the last look are read."""
        names = sorted(self._touched.names)
        self._touched.names.clear()
        for name, found in self._read(names).items():
            self._changes[name] = self._change(name, found)
        return {name: change for name, change in self._changes.items() if change.came or change.went}

    def _read(self, names: Sequence[str]) -> Documents:
        """All documents of these collections, by one command."""
        found: dict[str, list[Document]] = {name: [] for name in names}
        if names:
            local = self.db.with_options(read_concern=ReadConcern("local"))
            first, *others = names
            unions = [{"$unionWith": {"coll": name, "pipeline": [_labelled(name)]}} for name in others]
            for one in local[first].aggregate([_labelled(first), *unions], batchSize=MANY):
                found[one["name"]].append(one["document"])
        return found

    def _change(self, name: str, found: Iterable[Document]) -> Change:
        was, now = self._encoded.get(name, {}), _encoded(found)
        return Change(
            [document for one, (text, document) in now.items() if was.get(one, ("",))[0] != text],
            [document for one, (text, document) in was.items() if now.get(one, ("",))[0] != text],
        )

    def restore(self) -> None:
        """As it was before anybody wrote. The last write waits for the majority, and so for all before it."""
        changes = list(self.look().items())
        for number, (name, change) in enumerate(changes, 1):
            concern = "majority" if number == len(changes) else 1
            if not self._write(_back(name, change), concern):
                self._write(_anew(name, change), concern)
        self._touched.names.clear()
        self._changes.clear()

    def _write(self, commands: Sequence[Document], concern: str | int) -> bool:
        """Whether all went well. The last one waits for others."""
        for number, command in enumerate(commands, 1):
            answer = self.db.command({**command, "writeConcern": {"w": concern if number == len(commands) else 1}})
            if "writeErrors" in answer:
                return False
        return True

    def run_alone(self, acts: Sequence[Act], *, settled: bool, number: int = 0) -> Ran:
        """What the operations answer one after the other, and leave; `number` tells one such run from another."""
        key = (tuple(acts), settled, number)
        if key not in self._alone:
            self.restore()
            outcomes = [self._outcome(act) for act in acts]
            if settled:
                call(self.settle, self.db, self.prepared)
            self._alone[key] = (outcomes, self.look())
        return self._alone[key]

    def _outcome(self, act: Act) -> Outcome:
        """In a thread, since nothing else gets away from an operation that never ends."""
        outcomes: SimpleQueue[Outcome] = SimpleQueue()

        def run() -> None:
            try:
                outcomes.put(Outcome(call(act, self.db, self.prepared)))
            except BaseException as error:
                outcomes.put(Outcome(error=error))

        threading.Thread(target=run, daemon=True).start()
        try:
            return outcomes.get(timeout=ALONE_SECONDS)
        except Empty:
            name = getattr(act, "__name__", repr(act))
            raise NeverEnds(f"{name} did not end in {ALONE_SECONDS} seconds, with nobody beside it") from None


def _names(db: Db) -> list[str]:
    return [name for name in db.list_collection_names() if not name.startswith("system.")]


def _labelled(name: str) -> Document:
    return {"$project": {"_id": 0, "name": {"$literal": name}, "document": "$$ROOT"}}


def _encoded(documents: Iterable[Document]) -> dict[bytes, tuple[bytes, Document]]:
    """By id. Python would take 1 for 1.0 and for True, and fields in another order for the same."""
    return {encode({"": one["_id"]}, codec_options=CODEC): (encode(one, codec_options=CODEC), one) for one in documents}


def _back(name: str, change: Change) -> list[Document]:
    """The commands that bring a collection back: few, but refused where documents have exchanged a unique value."""
    was, now = (
        {encode({"": one["_id"]}, codec_options=CODEC): one for one in those} for those in (change.went, change.came)
    )
    new = [one for key, one in now.items() if key not in was]
    changed = [one for key, one in was.items() if key in now]
    gone = [one for key, one in was.items() if key not in now]
    return [*_deleting(name, new), *_replacing(name, changed), *_inserting(name, gone)]


def _anew(name: str, change: Change) -> list[Document]:
    """Those that delete first whatever changed, so that nothing is in the way."""
    return [*_deleting(name, [*change.came, *change.went]), *_inserting(name, change.went)]


def _deleting(name: str, documents: Sequence[Document]) -> Iterator[Document]:
    if documents:
        yield {"delete": name, "deletes": [{"q": {"_id": one["_id"]}, "limit": 1} for one in documents]}


def _replacing(name: str, documents: Sequence[Document]) -> Iterator[Document]:
    if documents:
        updates = [{"q": {"_id": one["_id"]}, "u": one} for one in documents]
        yield {"update": name, "updates": updates, "bypassDocumentValidation": True}


def _inserting(name: str, documents: Sequence[Document]) -> Iterator[Document]:
    if documents:
        yield {"insert": name, "documents": list(documents), "bypassDocumentValidation": True}
