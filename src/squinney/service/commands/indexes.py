"""`squinney indexes`: compares the declared indexes with those of the database."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from squinney import assembly
from squinney.http.commands import Json, connected, console, print_json, settings_of
from squinney.mongo import schema
from squinney.mongo.schema import Db


def indexes(
    context: typer.Context,
    apply: Annotated[bool, typer.Option("--apply", help="Create missing collections and indexes.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Also drop and recreate indexes whose options differ.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List every declared index with its size and use; exit with 1 if the database differs."""
    declared = assembly.collections(assembly.with_systems(settings_of(context).system_packages))
    with connected(context) as connection:
        if rebuild:
            schema.rebuild(connection.db, declared)
        elif apply:
            schema.apply(connection.db, declared)
        existing = connection.db.list_collection_names()
        rows = [row for one in declared for row in _rows(connection.db, one, is_missing=one.name not in existing)]
        drifts = [str(drift) for drift in schema.check(connection.db, declared)]
    if as_json:
        print_json({"indexes": rows, "drift": drifts})
    else:
        _show(rows, drifts)
    if drifts:
        raise typer.Exit(1)


def _rows(db: Db, collection: schema.Collection, *, is_missing: bool) -> list[dict[str, Any]]:
    sizes, uses = ({}, {}) if is_missing else _sizes_and_uses(db, collection.name)
    return [
        {
            "collection": collection.name,
            "index": index.name,
            "why": index.why,
            "bytes": sizes.get(index.name),
            "used": uses.get(index.name),
        }
        for index in collection.indexes
    ]


def _sizes_and_uses(db: Db, name: str) -> tuple[Counter[str], Counter[str]]:
    """Return the bytes and the uses of each index, summed over the shards."""
    sizes: Counter[str] = Counter()
    for shard in db[name].aggregate([{"$collStats": {"storageStats": {}}}]):
        sizes.update(shard["storageStats"]["indexSizes"])
    uses: Counter[str] = Counter()
    for used in db[name].aggregate([{"$indexStats": {}}]):
        uses[used["name"]] += used["accesses"]["ops"]
    return sizes, uses


def _show(rows: list[dict[str, Any]], drifts: list[str]) -> None:
    table = Table("collection", "index", "why", *(Column(name, justify="right") for name in ("KiB", "used")))
    for row in rows:
        size = "missing" if row["bytes"] is None else str(row["bytes"] // 1024)
        table.add_row(row["collection"], row["index"], row["why"], size, str(row["used"] if row["bytes"] else ""))
    console.print(table)
    for drift in drifts:
        console.print(Text.assemble(("differs", "red"), " ", str(drift)), highlight=False)
