"""Records the commands that a client sends while a page is made: what they ask, never with which values."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

import squinney
from squinney.mongo.schema import Db, Document
from squinney.testing.plans import Command, collections_read, explainable, shape_of

PACKAGE = Path(squinney.__file__).parent
# Code that all systems use: what a reader wants to see is the system that called it.
SHARED = ("mongo/", "patterns/", "transactions/", "testing/", "http/", "threads.py", "service/behind/")
PRIVATE = "identity."
MAX_COMMANDS = 200
MAX_EXPLAINED = 40
EXPLAIN_MILLISECONDS = 500
BORING = {"hello", "ping", "endSessions", "killCursors", "buildInfo", "listCollections", "listIndexes"}
WORD = re.compile(r"\w+")
QUERIED = re.compile(r'"([A-Za-z_.]+)"(?::|, -?1\))')  # the path of a field in a filter or a sort
NAME = re.compile(r"\$?\w[\w-]*")  # in a shape: an operator, or a part of the path of a field


@dataclass
class Sent:
    """A command: on which collection, the shape of its filter, the index it used, and where in our source it is."""

    name: str
    collection: str = ""
    shape: str = ""
    change: str = ""  # the shape of what it writes
    index: str = ""
    milliseconds: float = 0
    file: str = ""
    line: int = 0
    in_transaction: bool = False
    part: Command | None = field(default=None, repr=False)  # what the server can explain
    documents: Sequence[Document] = field(default=(), repr=False)


@dataclass
class RequestRecording:
    """The commands of one request."""

    sent: list[Sent] = field(default_factory=list)
    waiting: dict[int, list[Sent]] = field(default_factory=dict)


recording: ContextVar[RequestRecording | None] = ContextVar("recording", default=None)


class CommandRecorder(CommandListener):
    """Records the commands of the request that is being recorded, in whichever of its threads they are sent."""

    def started(self, event: CommandStartedEvent) -> None:
        current = recording.get()
        if current is None or event.command_name in BORING or len(current.sent) >= MAX_COMMANDS:
            return
        commands = list(_sent_by(event.command_name, event.command))
        # guard: nothing of people, sessions and keys is recorded
        if any(_is_private(command) for command in commands):
            return
        file, line = _caller()
        for command in commands:
            command.file, command.line = file, line
        current.sent += commands
        current.waiting[event.request_id] = commands

    def succeeded(self, event: CommandSucceededEvent) -> None:
        if current := recording.get():
            for command in current.waiting.pop(event.request_id, ()):
                command.milliseconds = event.duration_micros / 1_000
                command.documents = _documents_in(event.reply)

    def failed(self, event: CommandFailedEvent) -> None:
        """Keep the command without a time."""


def _sent_by(name: str, command: Mapping[str, Any]) -> Iterator[Sent]:
    """Yield what a command does, one for each statement of an update or a delete."""
    in_transaction = command.get("autocommit") is False
    collection = command.get(name)
    if name == "getMore":
        collection = command.get("collection")
    if not isinstance(collection, str):
        yield Sent(name, in_transaction=in_transaction)
        return
    parts = list(explainable(name, command))
    for part in parts:
        yield Sent(name, collection, _shape(name, part), _change(name, part), part=part, in_transaction=in_transaction)
    if not parts:
        yield Sent(name, collection, in_transaction=in_transaction)


def _is_private(command: Sent) -> bool:
    names = {command.collection, *(collections_read(command.part) if command.part else ())}
    return any(name.startswith(PRIVATE) for name in names)


def _caller() -> tuple[str, int]:
    """Return the file and the line of the system that sends the command."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            if not name.startswith(SHARED):
                return name, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _documents_in(reply: Mapping[str, Any]) -> Sequence[Document]:
    cursor = reply.get("cursor", {})
    batch = cursor.get("firstBatch", cursor.get("nextBatch", []))
    value = reply.get("value")
    return [*batch, *([value] if isinstance(value, Mapping) else [])]


# ---- shapes ----


def _shape(name: str, part: Command) -> str:
    """Return the shape of the filter, with only those field names that the systems declare."""
    text = shape_of(name, part).split(" ", 2)[2]
    return _masked_words(text)


def _change(name: str, part: Command) -> str:
    statement = part["updates"][0]["u"] if name == "update" else part.get("update", {})
    if not statement:
        return ""
    return _masked_words(json.dumps(_names_of(statement)))


def _names_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _names_of(inner) if str(key).startswith("$") else "?" for key, inner in value.items()}
    return "?"


def _masked_words(shape: str) -> str:
    """Replace names that are values, such as the id of a person in `tallies.ada`."""
    masked = NAME.sub(lambda match: match[0] if match[0][0] == "$" or is_known_name(match[0]) else "*", shape)
    return masked.replace('"', "")


def is_known_name(name: str) -> bool:
    """Return whether a system declares a field of this name, so that it is no value, such as somebody's handle."""
    return name in _words()


@cache
def _words() -> frozenset[str]:
    declared = {word for file in PACKAGE.rglob("documents.py") for word in WORD.findall(file.read_text("utf-8"))}
    queries = {path for file in PACKAGE.rglob("queries.py") for path in QUERIED.findall(file.read_text("utf-8"))}
    return frozenset(declared | {word for path in queries for word in path.split(".")})


# ---- the indexes used ----


def explain(db: Db, sent: Sequence[Sent]) -> None:
    """Ask the server which index each shape of command uses."""
    known: dict[tuple[str, str, str], str] = {}
    for command in sent:
        key = (command.name, command.collection, command.shape)
        if command.part is not None and key not in known and len(known) < MAX_EXPLAINED:
            known[key] = _index_of(db, command.part)
        command.index = known.get(key, "")


def _index_of(db: Db, part: Command) -> str:
    try:
        plan = db.command({"explain": part, "verbosity": "queryPlanner", "maxTimeMS": EXPLAIN_MILLISECONDS})
    except PyMongoError:
        return ""
    return ", ".join(dict.fromkeys(_indexes_in(plan)))


def _indexes_in(plan: Any) -> Iterator[str]:
    if isinstance(plan, Mapping):
        stage = plan.get("stage")
        if stage in ("IDHACK", "EXPRESS_IXSCAN", "CLUSTERED_IXSCAN"):
            yield str(plan.get("indexName", "_id_"))
        elif stage == "COLLSCAN":
            yield "none: it reads all"
        elif "indexName" in plan:
            yield str(plan["indexName"])
        for name, inner in plan.items():
            if name != "rejectedPlans":
                yield from _indexes_in(inner)
    elif isinstance(plan, list):
        for inner in plan:
            yield from _indexes_in(inner)
