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

    def report(one: Planned) -> None:
        if not as_json:
            print_line(f"sharded {one.name} by {_key(one)}")

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
        print_json([asdict(one) for one in checked])
    else:
        _show_checked(checked)
    if any(one.outcome in ("differs", "not explained") for one in checked):
        raise typer.Exit(1)


def _show_plan(planned: list[Planned], as_json: bool) -> None:
    if as_json:
        print_json([asdict(one) for one in planned])
    else:
        table = Table("collection", "key", *(Column(name, justify="right") for name in ("documents", "KiB")), "plan")
        for one in planned:
            table.add_row(one.name, _key(one), str(one.documents), str(one.bytes // 1024), _what(one))
        console.print(table)
    if any(one.state == "refused" for one in planned):
        raise typer.Exit(1)


def _key(one: Planned) -> str:
    return ", ".join(name if kind == 1 else f"{name} {kind}" for name, kind in one.key.items())


def _what(one: Planned) -> str:
    if one.state == "sharded":
        return "sharded: " + ", ".join(f"{count} on {shard}" for shard, count in sorted(one.shards.items()))
    if one.state == "to shard":
        return "create its index, then shard" if one.needs_index else "shard"
    return f"{one.state}: {one.why}"


def _show_checked(checked: list[Checked]) -> None:
    table = Table("query", "declared", Column("shards", justify="right"), "index", "")
    for one in checked:
        reached: Any = f"{one.reached} of {one.spread}"
        table.add_row(one.query, one.declared, reached, ", ".join(one.indexes), f"{one.outcome} {one.reason}".strip())
    console.print(table)
