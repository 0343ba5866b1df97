"""Record one schedule: each command with its reply, and all documents after it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson import json_util

from squinney.pictures.sequence import Kind, Message
from squinney.testing.explorer.actor import Actor
from squinney.testing.explorer.anomalies import Touched, anomaly_in

MAX_DOCUMENTS = 12
MAX_VALUE_LENGTH = 120
Documents = dict[str, str]  # by collection and id
Raw = Mapping[str, Any]


@dataclass
class Recording:
    """A schedule that was played with recording on. `before` are the documents before its first command.

    `wrong` is why it was refuted, empty if it was not. `anomaly` is the name of what went wrong, if it has one.
    """

    schedule: str
    actors: dict[str, str]
    before: Documents
    messages: list[Message] = field(default_factory=list)
    wrong: str = ""
    anomaly: str = ""
    first_wrong: int = -1  # the number of the message with which it goes wrong; -1 if unknown


class Recorder:
    """Notes every step of a schedule while it is played. `read` returns all documents, by collection and id."""

    def __init__(self, schedule: str, actors: dict[str, str], read: Callable[[], Documents]) -> None:
        self._read = read
        self._touched: list[Touched] = []
        self.recording = Recording(schedule, actors, read())

    def step(self, chosen: str, actor: Actor | None, what: str, sent: tuple[str, Raw] | None) -> None:
        """Note a step that was taken; `sent` is the command of the actor, if it sent one."""
        kind = _kind(chosen, actor)
        text = described(*sent) if sent and kind != "event" else what
        text = f"killed before: {text}" if kind == "death" else text
        reply = _replied(actor, sent) if actor and kind == "command" else ""
        before = self.recording.messages[-1].documents if self.recording.messages else self.recording.before
        message = Message(chosen[0] if actor else "", text, reply, kind, self._read())
        self.recording.messages.append(message)
        changed = {name for name in {*before, *message.documents} if before.get(name) != message.documents.get(name)}
        read = _documents_read(actor, sent) if actor and sent and kind == "command" else set()
        statement = text if sent else ""
        self._touched.append(Touched(chosen[0], kind, frozenset(read), frozenset(changed), statement))

    def finished(self, wrong: str) -> Recording:
        """Return the recording, with the name of what went wrong, if something did."""
        recording = self.recording
        recording.wrong = wrong
        if wrong:
            recording.anomaly, recording.first_wrong = anomaly_in(self._touched)
        return recording


def _kind(chosen: str, actor: Actor | None) -> Kind:
    if actor is None or chosen.endswith("~"):
        return "event"
    if chosen.endswith("!"):
        return "death"
    return "lost-reply" if chosen.endswith("?") else "command"


def shown(documents: Mapping[str, Iterable[Raw]]) -> Documents:
    """Return documents as text, by collection and id."""
    texts = {
        f"{name} {_value(document['_id'])}": _fields(document) for name, each in documents.items() for document in each
    }
    return dict(sorted(texts.items())[:MAX_DOCUMENTS])


def described(name: str, command: Raw) -> str:
    """Describe a command in a few words, such as `update ada: $inc balance -70`."""
    words = [name, *_statements(name, command)]
    return " ".join(words) + (" in a transaction" if command.get("startTransaction") else "")


def _statements(name: str, command: Raw) -> list[str]:
    if name == "update":
        return ["; ".join(f"{_filter(statement['q'])}: {_change(statement['u'])}" for statement in command["updates"])]
    if name == "delete":
        return ["; ".join(_filter(statement["q"]) for statement in command["deletes"])]
    if name == "insert":
        return ["; ".join(f"{_value(document['_id'])}: {_fields(document)}" for document in command["documents"])]
    if name == "find":
        return [_filter(command.get("filter", {}))]
    if name == "findAndModify":
        return [f"{_filter(command.get('query', {}))}: {_change(command.get('update', {}))}"]
    return [str(command[name])] if isinstance(command.get(name), str) else []


def _filter(query: Raw) -> str:
    """Describe a filter: the id, and what else it demands."""
    rest = {name: value for name, value in query.items() if name != "_id"}
    words = [_value(query["_id"])] if "_id" in query else []
    return " ".join([*words, *([f"if {_pairs(rest)}"] if rest else [])]) or "all"


def _change(update: Any) -> str:
    if not isinstance(update, Mapping):
        return "by a pipeline"
    if not any(name.startswith("$") for name in update):
        return _fields(update)
    return ", ".join(f"{operator} {_pairs(fields)}" for operator, fields in update.items())


def _pairs(fields: Any) -> str:
    if not isinstance(fields, Mapping):
        return _value(fields)
    return ", ".join(f"{name} {_value(value)}" for name, value in fields.items())


def _fields(document: Raw) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in document.items() if name != "_id")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value[:MAX_VALUE_LENGTH]
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)).startswith("$"):
        operator, operand = next(iter(value.items()))
        return f"{SIGNS.get(operator, operator)} {_value(operand)}"
    return json.dumps(value, default=json_util.default)[:MAX_VALUE_LENGTH]


SIGNS = {"$gte": "≥", "$lte": "≤", "$gt": ">", "$lt": "<", "$ne": "≠"}


def _replied(actor: Actor, sent: tuple[str, Raw] | None) -> str:
    """Describe the reply in a few words: what was found, or that nothing was."""
    reply = actor.replied
    if reply is None:
        return "waits" if actor.status == "waiting" else ""
    if "codeName" in reply:
        return str(reply["codeName"])
    name = sent[0] if sent else ""
    if name in ("find", "aggregate"):
        batch = _batch(reply)
        return _fields(batch[0]) if len(batch) == 1 else f"{len(batch)} documents" if batch else "nothing"
    if name == "findAndModify":
        return _fields(reply["value"]) if reply.get("value") else "nothing"
    return "nothing" if name in ("update", "delete") and not reply.get("n") else ""


def _batch(reply: Raw) -> Sequence[Raw]:
    cursor = reply.get("cursor", {})
    batch: Sequence[Raw] = cursor.get("firstBatch", cursor.get("nextBatch", []))
    return batch


def _documents_read(actor: Actor, sent: tuple[str, Raw]) -> set[str]:
    name, command = sent
    if name != "find" or actor.replied is None:
        return set()
    return {f"{command['find']} {_value(document['_id'])}" for document in _batch(actor.replied) if "_id" in document}
