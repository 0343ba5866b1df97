"""What a client sends to the server: counted, and told apart into reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pymongo.monitoring import CommandListener, CommandStartedEvent

from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db

WRITES = {"insert", "update", "delete", "findAndModify", "bulkWrite", "commitTransaction"}


def is_write(name: str, command: Mapping[str, Any]) -> bool:
    """Whether the command may change documents. An abort changes none."""
    if name == "aggregate":
        return any(stage in ("$out", "$merge") for step in command.get("pipeline", ())[-1:] for stage in step)
    return name in WRITES


def described(name: str, command: Mapping[str, Any]) -> str:
    """A command in a few words, for people."""
    target = command.get(name)
    words = [name, target] if isinstance(target, str) else [name]
    if command.get("autocommit") is False and name not in ("commitTransaction", "abortTransaction"):
        words.append("in a transaction")
    return " ".join(words)


class Commands(CommandListener):
    """Every command sent, in order."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    @property
    def names(self) -> list[str]:
        """The commands' names."""
        return [name for name, _ in self.sent]

    def started(self, event: CommandStartedEvent) -> None:
        """A command leaves."""
        self.sent.append((event.command_name, event.command))

    def succeeded(self, event: object) -> None:
        """Not of interest."""

    def failed(self, event: object) -> None:
        """Not of interest."""


@contextmanager
def watched(uri: str, name: str) -> Iterator[tuple[Db, Commands]]:
    """A database through a client of its own, and the commands that the client sends."""
    commands = Commands()
    with client_for(uri, event_listeners=[commands]) as client:
        yield client[name], commands
