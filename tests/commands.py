"""What a client sends to the server, for tests that count it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymongo.monitoring import CommandListener, CommandStartedEvent

from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db


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
