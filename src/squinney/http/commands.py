"""What every command shares: settings from the global options, a connection, and how to print."""

from __future__ import annotations

import json
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

from squinney.mongo.connect import Connection, connect
from squinney.mongo.embedded.guard import kept_alive
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page
from squinney.settings import Settings
from squinney.system import Assembled
from squinney.transactions import Key

# What is printed came from outside: a bracket or a colon in it is no markup. Who wants some says so.
console = Console(markup=False, emoji=False)
errors = Console(stderr=True, markup=False, emoji=False)

# Options that many commands have.
Json = Annotated[bool, typer.Option("--json", help="For machines.")]
Cursor = Annotated[str | None, typer.Option(help="Where the page before ended.")]
Limit = Annotated[int, typer.Option(help="How many.")]
KeyOption = Annotated[
    Key | None,
    typer.Option(
        parser=lambda given: Key(given, "cli"),
        metavar="TEXT",
        help="Repeat the command with the same key and it happens once.",
    ),
]


@dataclass(frozen=True)
class Call:
    """One call of the command, as `context.obj`: the global options, and how to make a database and all systems ready.

    `given` are settings by their names, None for those that were not given.
    """

    given: dict[str, Any]
    assemble: Callable[[Db, Settings], Assembled]


@contextmanager
def connected(context: typer.Context) -> Iterator[Connection]:
    """A connection as the global options and the environment say; an embedded server that dies is started again."""
    with connect(settings_of(context)) as connection, kept_alive(connection.embedded):
        yield connection


@contextmanager
def ready(context: typer.Context) -> Iterator[Assembled]:
    """All systems, on a database whose collections are there; `serve` and `indexes --apply` look at each index."""
    call: Call = context.obj
    with connected(context) as connection:
        yield call.assemble(connection.db, settings_of(context))


def settings_of(context: typer.Context) -> Settings:
    """The settings of this call."""
    call: Call = context.obj
    return Settings.from_environment(**call.given)


def stop_signal() -> Event:
    """Set by Ctrl-C or SIGTERM from now on, so that what looks at it ends in order."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def listed(counts: Mapping[str, Any]) -> str:
    """What was done, for people: `finished: 1, swept: 2`."""
    return ", ".join(f"{what}: {count}" for what, count in counts.items()) or "nothing to do"


def print_json(value: Any) -> None:
    """Plain JSON for machines: dates as ISO 8601, ids as strings."""
    typer.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def say(line: str) -> None:
    """A line for people, as it is, however long."""
    console.print(line, highlight=False, soft_wrap=True)


def show(value: Any, line: str, as_json: bool) -> None:
    """What a command did: the value for machines, or the line for people."""
    if as_json:
        print_json(value)
    else:
        say(line)


def show_page(
    page: Page[Any], as_json: bool, columns: Sequence[str | Column], row: Callable[[Any], Sequence[str]]
) -> None:
    """A page of a list: as JSON, or a table with a row for each item, and how to see the next page."""
    if as_json:
        print_json({"items": page.items, "next": page.next})
        return
    table = Table(*columns)
    for item in page.items:
        table.add_row(*row(item))
    console.print(table)
    if page.next:
        say(f"more: --cursor {page.next}")


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    try:
        return json_util.default(value)
    except TypeError:
        return str(value)
