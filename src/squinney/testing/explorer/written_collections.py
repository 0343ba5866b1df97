"""A command listener that remembers which collections were written to, and whether any was made, changed or dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.monitoring import CommandStartedEvent

from squinney.mongo.ownership import RECORDS
from squinney.testing.server_commands import Starts, written_to

REDEFINING = {"create", "createIndexes", "drop", "dropIndexes", "dropDatabase", "collMod", "renameCollection"}


class WrittenCollections(Starts):
    """The names of the collections that clients wrote to; `redefined` if a collection or an index is not as before."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.redefined = False

    def started(self, event: CommandStartedEvent) -> None:
        self.note(event.command_name, event.command)

    def note(self, name: str, command: Mapping[str, Any]) -> None:
        self.names |= written_to(name, command) - {RECORDS}  # a record stays as long as what was made
        self.redefined = self.redefined or name in REDEFINING
