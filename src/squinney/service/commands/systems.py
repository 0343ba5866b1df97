"""Which systems the commands are about: ours, and those that the setting `systems` names."""

from __future__ import annotations

import typer

from squinney import assembly
from squinney.http.commands import settings_of
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.settings import Settings
from squinney.system import Assembled, System


def systems_of(context: typer.Context) -> tuple[System, ...]:
    """All systems of this call."""
    return assembly.with_systems(settings_of(context).system_packages)


def assemble(db: Db, settings: Settings) -> Assembled:
    """All systems, on a database whose missing collections are created."""
    systems = assembly.with_systems(settings.system_packages)
    there = set(db.list_collection_names())
    schema.apply(db, [one for one in assembly.collections(systems) if one.name not in there])
    return assembly.assemble(db, mode=settings.transaction_mode, systems=systems)
