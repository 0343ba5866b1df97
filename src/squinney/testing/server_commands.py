"""Record the commands that a client sends, and say what they write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pymongo.monitoring import CommandListener, CommandStartedEvent

from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db
from squinney.mongo.write_commands import is_write


def written_to(name: str, command: Mapping[str, Any]) -> set[str]:
    """Return the names of the collections that the command may change. `commitTransaction` names none."""
    if not is_write(name, command):
        return set()
    if name == "aggregate":
        return {_target(command["pipeline"][-1])}
    if name == "bulkWrite":
        return {target["ns"].partition(".")[2] for target in command.get("nsInfo", ())}
    return {command[name]} if isinstance(command[name], str) else set()


def _target(stage: Mapping[str, Any]) -> str:
    """Return the collection that a `$out` or `$merge` stage writes to."""
    into = stage.get("$out") or stage["$merge"]
    into = into.get("into", into) if isinstance(into, dict) else into
    return str(into["coll"] if isinstance(into, dict) else into)


def described(name: str, command: Mapping[str, Any]) -> str:
    """Describe a command for a message, such as `update accounts in a transaction`."""
    target = command.get(name)
    words = [name, target] if isinstance(target, str) else [name]
    if command.get("autocommit") is False and name not in ("commitTransaction", "abortTransaction"):
        words.append("in a transaction")
    return " ".join(words)


def writes_elsewhere(event: CommandStartedEvent, database: str) -> bool:
    """Return whether a write goes to another database."""
    writes = is_write(event.command_name, event.command) and event.command_name != "commitTransaction"  # of `admin`
    # guard: a write to another database is noticed
    return writes and event.database_name != database


class Starts(CommandListener):
    """A command listener that only sees commands start."""

    def succeeded(self, event: object) -> None:
        pass

    def failed(self, event: object) -> None:
        pass


class Commands(Starts):
    """A command listener that keeps every command sent, in order."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    @property
    def names(self) -> list[str]:
        """The names of the commands sent."""
        return [name for name, _ in self.sent]

    def started(self, event: CommandStartedEvent) -> None:
        self.sent.append((event.command_name, event.command))


@contextmanager
def watched(uri: str, name: str) -> Iterator[tuple[Db, Commands]]:
    """Open a database with a new client; yield the database and the list of commands that the client sends."""
    commands = Commands()
    with client_for(uri, event_listeners=[commands]) as client:
        yield client[name], commands
