"""Shared by all commands: settings from the global options, the connection, and printing."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Annotated, Any

import typer
from bson import json_util
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from squinney.mongo.connect import Connection, connect
from squinney.mongo.embedded.guard import kept_alive
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page
from squinney.settings import Settings
from squinney.system import Assembled
from squinney.transactions import Key

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")  # not tabs and newlines


class SafeConsole(Console):
    """A console on which stored text is only text: brackets and colons are not markup, and nothing controls it."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(CONTROL.sub(" ", text), **options)


console = SafeConsole(markup=False, emoji=False)
errors = SafeConsole(stderr=True, markup=False, emoji=False)

# Options shared by many commands.
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Cursor = Annotated[str | None, typer.Option(help="The cursor that the previous page printed.")]
Limit = Annotated[int, typer.Option(help="How many to show.")]
KeyOption = Annotated[
    Key | None,
    typer.Option(
        parser=lambda given: Key(given, "cli"),
        metavar="TEXT",
        help="An idempotency key: repeating the command with the same key has no further effect.",
    ),
]


@dataclass(frozen=True)
class Invocation:
    """One invocation of `squinney`, kept in `context.obj`: its global options, and a function that builds all systems.

    `given` maps the names of settings to values; None means that the option was not given.
    """

    given: dict[str, Any]
    assemble: Callable[[Db, Settings], Assembled]


@contextmanager
def connected(context: typer.Context) -> Iterator[Connection]:
    """Connect as the global options and the environment say; an embedded server that dies is restarted."""
    with connect(settings_of(context)) as connection, kept_alive(connection.embedded):
        yield connection


@contextmanager
def open_systems(context: typer.Context) -> Iterator[Assembled]:
    """Connect, create missing collections and build all systems; `serve` and `indexes --apply` also check indexes."""
    invocation: Invocation = context.obj
    with connected(context) as connection:
        yield invocation.assemble(connection.db, settings_of(context))


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


def format_counts(counts: Mapping[str, Any]) -> str:
    """Format counts for the terminal: `finished: 1, swept: 2`."""
    return ", ".join(f"{name}: {count}" for name, count in counts.items()) or "nothing to do"


def print_json(value: Any) -> None:
    """Print a value as JSON, with dates as ISO 8601 and ids as strings."""
    typer.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def print_line(line: str) -> None:
    """Print a line of text unchanged, without wrapping or highlighting it."""
    console.print(line, highlight=False, soft_wrap=True)


def print_result(value: Any, line: str, as_json: bool) -> None:
    """Print the result of a command: `value` as JSON, or else `line`."""
    if as_json:
        print_json(value)
    else:
        print_line(line)


def print_page(
    page: Page[Any], as_json: bool, columns: Sequence[str | Column], row: Callable[[Any], Sequence[str]]
) -> None:
    """Print a page of a list as JSON, or as a table followed by the cursor of the next page."""
    if as_json:
        print_json({"items": page.items, "next": page.next})
        return
    table = Table(*columns)
    for item in page.items:
        table.add_row(*row(item))
    console.print(table)
    if page.next:
        print_line(f"more: --cursor {page.next}")


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    try:
        return json_util.default(value)
    except TypeError:
        return str(value)
