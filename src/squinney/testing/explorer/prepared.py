"""The prepared database: restored before each schedule, and compared with its prepared state after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from bson import encode

from squinney.mongo.pinned import CODEC
from squinney.mongo.schema import Db, Document
from squinney.testing.async_operations import AsyncCaller
from squinney.testing.calls import call, run_prepare
from squinney.testing.emptying import collection_names, read_each
from squinney.testing.explorer.actor import OperationOutcome
from squinney.testing.explorer.operations import Act
from squinney.testing.explorer.states import Changes, CollectionChange, Documents, Masks
from squinney.testing.explorer.written_collections import WrittenCollections

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
Ran = tuple[
    Sequence[OperationOutcome], Changes
]  # how operations ended that ran one after the other, and what they changed
KEPT_SECONDS = 60  # a prepared database becomes stale when its documents expire
ALONE_SECONDS = 60


class NeverEnds(AssertionError):
    """An operation did not end although no other operation ran."""


class PreparedDatabase:
    """A database as `prepare` left it, and how it differs from that now."""

    def __init__(
        self, db: Db, asynchronous: AsyncCaller, prepare: Act | None, settle: Act, written: WrittenCollections
    ) -> None:
        self.db = db
        self._asynchronous = asynchronous
        self.settle = settle
        self._prepare = prepare
        self._written = written
        self.prepared: Any = run_prepare(prepare, db) if prepare else None
        self.documents: Documents = {name: list(db[name].find()) for name in collection_names(db)}
        self.masks = Masks(self.documents)
        self._encoded = {name: _encoded(documents) for name, documents in self.documents.items()}
        self.sound: dict[object, Changes] = {}  # by fingerprint before settling: changes that passed all checks
        self._changes: dict[str, CollectionChange] = {}
        self._serial_runs: dict[object, Ran] = {}
        self._until = time.monotonic() + KEPT_SECONDS
        written.names.clear()
        written.redefined = False

    def is_usable(self, prepare: Act | None, settle: Act) -> bool:
        """Return whether the database was prepared by this function, recently, and has the same indexes since."""
        is_same = (self._prepare, self.settle) == (prepare, settle)
        # guard: an index that an operation made does not stay for the next test
        return is_same and not self._written.redefined and time.monotonic() < self._until

    def changes(self) -> Changes:
        """Return how the database differs now. Only collections written to since the last call are read."""
        names = sorted(self._written.names)
        self._written.names.clear()
        for name, documents in self._read(names).items():
            self._changes[name] = self._change(name, documents)
        return {name: change for name, change in self._changes.items() if change.added or change.removed}

    def _read(self, names: Sequence[str]) -> Documents:
        """Read all documents of these collections in one command."""
        documents: dict[str, list[Document]] = {name: [] for name in names}
        for labelled in read_each(self.db, names, _labelled) if names else ():
            documents[labelled["name"]].append(labelled["document"])
        return documents

    def _change(self, name: str, documents: Iterable[Document]) -> CollectionChange:
        was, now = self._encoded.get(name, {}), _encoded(documents)
        return CollectionChange(
            [document for key, (text, document) in now.items() if was.get(key, ("",))[0] != text],
            [document for key, (text, document) in was.items() if now.get(key, ("",))[0] != text],
        )

    def restore(self) -> None:
        """Undo all changes. Only the last write waits for a majority: then a majority has all earlier writes too."""
        changes = list(self.changes().items())
        for number, (name, change) in enumerate(changes, 1):
            concern = "majority" if number == len(changes) else 1
            if not self._write(_undoing(name, change), concern):
                self._write(_deleting_first(name, change), concern)
        self._written.names.clear()
        self._changes.clear()

    def _write(self, commands: Sequence[Document], concern: str | int) -> bool:
        """Send the commands, the last with this write concern; return whether all of them succeeded."""
        for number, command in enumerate(commands, 1):
            reply = self.db.command({**command, "writeConcern": {"w": concern if number == len(commands) else 1}})
            if "writeErrors" in reply:
                return False
        return True

    def run_serially(self, acts: Sequence[Act], *, settled: bool, number: int = 0) -> Ran:
        """Run the operations one after the other. Results are cached; another `number` runs them again."""
        key = (tuple(acts), settled, number)
        if key not in self._serial_runs:
            self.restore()
            outcomes = [self._outcome(act) for act in acts]
            if settled:
                call(self.settle, self.db, self.prepared)
            self._serial_runs[key] = (outcomes, self.changes())
        return self._serial_runs[key]

    def _outcome(self, act: Act) -> OperationOutcome:
        """Run an operation in a thread, so that one that never ends can be abandoned."""
        outcomes: SimpleQueue[OperationOutcome] = SimpleQueue()

        def run() -> None:
            try:
                outcomes.put(OperationOutcome(call(act, self.db, self.prepared, self._asynchronous)))
            except BaseException as error:
                outcomes.put(OperationOutcome(error=error))

        threading.Thread(target=run, daemon=True).start()
        try:
            return outcomes.get(timeout=ALONE_SECONDS)
        except Empty:
            name = getattr(act, "__name__", repr(act))
            raise NeverEnds(f"{name} did not end in {ALONE_SECONDS} seconds, although nothing else ran") from None


def _labelled(name: str) -> list[Document]:
    return [{"$project": {"_id": 0, "name": {"$literal": name}, "document": "$$ROOT"}}]


def _encoded(documents: Iterable[Document]) -> dict[bytes, tuple[bytes, Document]]:
    """Encode documents, by id. In BSON, unlike in Python, 1, 1.0 and True differ, and so do two orders of fields."""
    return {_key(document): (encode(document, codec_options=CODEC), document) for document in documents}


def _key(document: Document) -> bytes:
    return encode({"": document["_id"]}, codec_options=CODEC)


def _undoing(name: str, change: CollectionChange) -> list[Document]:
    """Return few commands that undo a change. The server refuses them if documents exchanged a unique value."""
    was, now = ({_key(document): document for document in documents} for documents in (change.removed, change.added))
    new = [document for key, document in now.items() if key not in was]
    changed = [document for key, document in was.items() if key in now]
    deleted = [document for key, document in was.items() if key not in now]
    return _commands(name, new, changed, deleted)


def _deleting_first(name: str, change: CollectionChange) -> list[Document]:
    """Return commands that undo a change and delete all changed documents first, so that no unique value conflicts."""
    return _commands(name, [*change.added, *change.removed], [], change.removed)


def _commands(
    name: str, deleted: Sequence[Document], replaced: Sequence[Document], inserted: Sequence[Document]
) -> list[Document]:
    """Return a command for each kind of write that there is."""
    unchecked = {"bypassDocumentValidation": True}
    deletes = [{"q": {"_id": document["_id"]}, "limit": 1} for document in deleted]
    updates = [{"q": {"_id": document["_id"]}, "u": document} for document in replaced]
    commands: list[tuple[Sequence[Document], Document]] = [
        (deleted, {"delete": name, "deletes": deletes}),
        (replaced, {"update": name, "updates": updates, **unchecked}),
        (inserted, {"insert": name, "documents": list(inserted), **unchecked}),
    ]
    return [command for documents, command in commands if documents]
