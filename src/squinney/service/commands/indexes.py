"""`squinney indexes`: compares the declared indexes with those of the database."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer
from pymongo.errors import OperationFailure
from rich.table import Column, Table
from rich.text import Text

from squinney import assembly
from squinney.cli.connecting import connected, settings_of
from squinney.cli.parameters import Adopt, Json, Systems
from squinney.cli.printing import console, print_json
from squinney.mongo import schema
from squinney.mongo.failures import UNAUTHORIZED
from squinney.mongo.schema import Db


def indexes(
    context: typer.Context,
    apply: Annotated[bool, typer.Option("--apply", help="Create missing collections and indexes.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Also drop and recreate indexes whose options differ.")
    ] = False,
    systems: Systems = None,
    adopt: Adopt = None,
    as_json: Json = False,
) -> None:
    """List every declared index with its size and use; exit with 1 if the database differs.

    Further indexes on these collections are listed, but are no reason to fail.
    """
    declared = assembly.collections(assembly.chosen_systems(settings_of(context).system_names))
    with connected(context) as connection:
        if rebuild:
            schema.rebuild(connection.db, declared, adopt=adopt or ())
        elif apply:
            schema.apply(connection.db, declared, adopt=adopt or ())
        existing = connection.db.list_collection_names()
        rows = [
            row
            for collection in declared
            for row in _rows(connection.db, collection, is_missing=collection.name not in existing)
        ]
        drifts = schema.check(connection.db, declared)
    if as_json:
        print_json({"indexes": rows, "drift": [str(drift) for drift in drifts]})
    else:
        _show(rows, drifts)
    if any(drift.kind != "extra-index" for drift in drifts):
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
    """Return the bytes and the uses of each index, summed over the shards; no uses if the user may not see them."""
    sizes: Counter[str] = Counter()
    for shard in db[name].aggregate([{"$collStats": {"storageStats": {}}}]):
        sizes.update(shard["storageStats"]["indexSizes"])
    uses: Counter[str] = Counter()
    try:
        for used in db[name].aggregate([{"$indexStats": {}}]):
            uses[used["name"]] += used["accesses"]["ops"]
    except OperationFailure as error:
        if error.code != UNAUTHORIZED:
            raise
    return sizes, uses


def _show(rows: list[dict[str, Any]], drifts: list[schema.Drift]) -> None:
    table = Table("collection", "index", "why", *(Column(name, justify="right") for name in ("KiB", "used")))
    for row in rows:
        size = "missing" if row["bytes"] is None else str(row["bytes"] // 1024)
        used = "" if row["used"] is None else str(row["used"])
        table.add_row(row["collection"], row["index"], row["why"], size, used)
    console.print(table)
    for drift in drifts:
        mark = ("notice", "yellow") if drift.kind == "extra-index" else ("differs", "red")
        console.print(Text.assemble(mark, " ", str(drift)), highlight=False)
