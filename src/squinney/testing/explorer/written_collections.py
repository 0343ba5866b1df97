"""A command listener that remembers which collections were written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.monitoring import CommandStartedEvent

from squinney.testing.commands import Starts, written_to


class WrittenCollections(Starts):
    """The names of the collections that clients wrote to."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def started(self, event: CommandStartedEvent) -> None:
        self.note(event.command_name, event.command)

    def note(self, name: str, command: Mapping[str, Any]) -> None:
        self.names |= written_to(name, command)
