"""What every command shares: settings from the global options, a connection, and how to print."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from bson import json_util
from rich.console import Console

from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.connect import Connection, connect
from squinney.mongo.embedded.guard import kept_alive
from squinney.settings import Settings

# What is printed came from outside: a bracket or a colon in it is no markup. Who wants some says so.
console = Console(markup=False, emoji=False)
errors = Console(stderr=True, markup=False, emoji=False)

# Options that many commands have.
Json = Annotated[bool, typer.Option("--json", help="For machines.")]
Cursor = Annotated[str | None, typer.Option(help="Where the page before ended.")]
Limit = Annotated[int, typer.Option(help="How many.")]


@contextmanager
def connected(context: typer.Context) -> Iterator[Connection]:
    """A connection as the global options and the environment say; an embedded server that dies is started again."""
    with connect(settings_of(context)) as connection, kept_alive(connection.embedded):
        yield connection


@contextmanager
def ready(context: typer.Context) -> Iterator[assembly.Assembled]:
    """All systems, on a database whose collections are there; `serve` and `indexes --apply` look at each index."""
    with connected(context) as connection:
        there = set(connection.db.list_collection_names())
        schema.apply(connection.db, [one for one in assembly.collections() if one.name not in there])
        yield assembly.assemble(connection.db, mode=settings_of(context).transaction_mode)


def settings_of(context: typer.Context) -> Settings:
    """The settings of this call."""
    return Settings.from_environment(**(context.obj or {}))


def listed(counts: Mapping[str, Any]) -> str:
    """What was done, for people: `finished: 1, swept: 2`."""
    return ", ".join(f"{what}: {count}" for what, count in counts.items()) or "nothing to do"


def print_json(value: Any) -> None:
    """Plain JSON for machines: dates as ISO 8601, ids as strings."""
    typer.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    try:
        return json_util.default(value)
    except TypeError:
        return str(value)
