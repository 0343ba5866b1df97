"""One invocation of `squinney`: its global options, its settings, its connection and the systems built on it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import typer

from squinney.mongo.connect import Connection, connect
from squinney.mongo.embedded.supervisor import kept_alive
from squinney.mongo.schema import Db
from squinney.settings import Settings
from squinney.system import Assembled


@dataclass(frozen=True)
class Invocation:
    """One invocation of `squinney`, kept in `context.obj`: its global options, and a function that builds all systems.

    `given` maps the names of settings to values; None means that the option was not given. `adopt` has the names of
    collections to take over, which the functions get that create missing ones. The last argument of `assemble` says
    whether to rename the collections of an older version.
    """

    given: dict[str, Any]
    assemble: Callable[[Db, Settings, Sequence[str], bool], Assembled]
    adopt: list[str] = field(default_factory=list)


@contextmanager
def connected(context: typer.Context) -> Iterator[Connection]:
    """Connect as the global options and the environment say; an embedded server that dies is restarted."""
    with connect(settings_of(context)) as connection, kept_alive(connection.embedded):
        yield connection


@contextmanager
def open_systems(context: typer.Context, *, rename: bool = False) -> Iterator[Assembled]:
    """Connect, create missing collections and build all systems; `serve` and `indexes --apply` also check indexes.

    With `rename`, and always with the embedded server, collections of an older version are renamed.
    """
    invocation: Invocation = context.obj
    with connected(context) as connection:
        rename = rename or connection.embedded is not None
        yield invocation.assemble(connection.db, settings_of(context), invocation.adopt, rename)


def settings_of(context: typer.Context) -> Settings:
    """Return the settings of this invocation."""
    invocation: Invocation = context.obj
    return Settings.from_environment(**invocation.given)


def stop_signal() -> Event:
    """Return an event that Ctrl-C and SIGTERM set from now on, so that the command can stop cleanly."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
