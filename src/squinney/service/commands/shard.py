"""`squinney shard`: plans, does and checks the sharding of a database."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from squinney import assembly
from squinney.cli.connecting import connected, settings_of
from squinney.cli.parameters import Json, Systems
from squinney.cli.printing import console, print_json, print_line
from squinney.service import sharding
from squinney.service.sharding import Checked, Planned
from squinney.system import System

shard_app = typer.Typer(help="Shard the database of a cluster as it is declared.", no_args_is_help=True)


def _systems(context: typer.Context) -> tuple[System, ...]:
    return assembly.chosen_systems(settings_of(context).system_names)


@shard_app.command()
def plan(context: typer.Context, systems: Systems = None, as_json: Json = False) -> None:
    """Print the key of each collection, its size, and what `apply` would do; exit with 1 if something is refused."""
    with connected(context) as connection:
        planned = sharding.plan(connection.db, assembly.collections(_systems(context)))
    _show_plan(planned, as_json)


@shard_app.command()
def apply(
    context: typer.Context,
    evenly: Annotated[
        bool, typer.Option("--evenly", help="Move a part of each collection to every shard now, also of small ones.")
    ] = False,
    systems: Systems = None,
    as_json: Json = False,
) -> None:
    """Create the indexes that the keys need and shard the collections, while the site runs.

    After Ctrl-C run it again. It refuses to shard anything if an index would lose its uniqueness.
    """

    def report(collection: Planned) -> None:
        if not as_json:
            print_line(f"sharded {collection.name} by {_key(collection)}")

    declared = assembly.collections(_systems(context))
    with connected(context) as connection:
        planned = sharding.shard(connection.db, declared, evenly=evenly, report=report)
    _show_plan(planned, as_json)


@shard_app.command()
def check(context: typer.Context, systems: Systems = None, as_json: Json = False) -> None:
    """Ask the router which shards every declared query reaches; exit with 1 if one differs from its declaration."""
    with connected(context) as connection:
        checked = sharding.check(connection.db, assembly.queries(_systems(context)))
    if as_json:
        print_json([asdict(result) for result in checked])
    else:
        _show_checked(checked)
    if any(result.outcome in ("differs", "not explained") for result in checked):
        raise typer.Exit(1)


def _show_plan(planned: list[Planned], as_json: bool) -> None:
    if as_json:
        print_json([asdict(collection) for collection in planned])
    else:
        table = Table("collection", "key", *(Column(name, justify="right") for name in ("documents", "KiB")), "plan")
        for collection in planned:
            table.add_row(
                collection.name,
                _key(collection),
                str(collection.documents),
                str(collection.bytes // 1024),
                _what(collection),
            )
        console.print(table)
    if any(collection.state == "refused" for collection in planned):
        raise typer.Exit(1)


def _key(collection: Planned) -> str:
    return ", ".join(name if kind == 1 else f"{name} {kind}" for name, kind in collection.key.items())


def _what(collection: Planned) -> str:
    if collection.state == "sharded":
        return "sharded: " + ", ".join(f"{count} on {shard}" for shard, count in sorted(collection.shards.items()))
    if collection.state == "to shard":
        return "create its index, then shard" if collection.needs_index else "shard"
    return f"{collection.state}: {collection.why}"


def _show_checked(checked: list[Checked]) -> None:
    table = Table("query", "declared", Column("shards", justify="right"), "index", "")
    for result in checked:
        reached: Any = f"{result.reached} of {result.spread}"
        table.add_row(
            result.query,
            result.declared,
            reached,
            ", ".join(result.indexes),
            f"{result.outcome} {result.reason}".strip(),
        )
    console.print(table)
