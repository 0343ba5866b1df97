"""A command listener that remembers which collections were written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.monitoring import CommandStartedEvent

from squinney.testing.commands import Starts, is_write


class WrittenCollections(Starts):
    """The names of the collections that clients wrote to."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def started(self, event: CommandStartedEvent) -> None:
        self.note(event.command_name, event.command)

    def note(self, name: str, command: Mapping[str, Any]) -> None:
        if name == "aggregate" and is_write(name, command):
            self.names.add(_target(command["pipeline"][-1]))
        elif is_write(name, command) and isinstance(command[name], str):
            self.names.add(command[name])


def _target(stage: Mapping[str, Any]) -> str:
    """Return the collection that a `$out` or `$merge` stage writes to."""
    into = stage.get("$out") or stage["$merge"]
    into = into.get("into", into) if isinstance(into, dict) else into
    return str(into["coll"] if isinstance(into, dict) else into)
