"""Tell whether an operation changed any document: a write to a misspelt collection is sent, but changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pymongo.monitoring import CommandStartedEvent, CommandSucceededEvent

from squinney.testing.server_commands import written_to
from squinney.transactions import KEYS


class Effects:
    """The collections that writes were sent to, and whether a reply says that one of them changed a document.

    The records of `Transactions` do not count. A write in a transaction counts even if the transaction is aborted.
    """

    def __init__(self) -> None:
        self.collections: set[str] = set()
        self.changed = False
        self._sent: set[int] = set()

    def started(self, event: CommandStartedEvent) -> None:
        if names := written_to(event.command_name, event.command) - {KEYS}:
            self.collections |= names
            self._sent.add(event.request_id)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        if event.request_id in self._sent:
            self.changed = self.changed or _changed(event.command_name, event.reply)


def _changed(name: str, reply: Mapping[str, Any]) -> bool:
    """Return whether the reply to a write reports a changed document. A reply without numbers may hide one."""
    match name:
        case "findAndModify":
            counts = [reply["lastErrorObject"]["n"]]
        case "update":
            counts = [reply.get("nModified", 1), len(reply.get("upserted", ()))]
        case "bulkWrite":
            counts = [reply.get(f"n{kind}", 1) for kind in ("Inserted", "Modified", "Upserted", "Deleted")]
        case _:
            counts = [reply.get("n", 1)]
    return any(counts)


def in_vain(who: str, names: Collection[str], filled: Collection[str]) -> str:
    """Describe writes to these collections that changed nothing; `filled` are the collections with documents."""
    others = [name for name in sorted(names) if name in filled]
    empty = [f"{name}, which is empty" for name in sorted(names) if name not in filled]
    return f"{who} changed no document: the writes went to {' and to '.join([*others, *empty])}"
