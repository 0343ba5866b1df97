"""The systems that commands use: the built-in ones, and those named by the setting `systems`."""

from __future__ import annotations

import typer

from squinney import assembly
from squinney.http.commands import settings_of
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.settings import Settings
from squinney.system import Assembled, System


def systems_of(context: typer.Context) -> tuple[System, ...]:
    """Return all systems of this invocation."""
    return assembly.with_systems(settings_of(context).system_packages)


def assemble(db: Db, settings: Settings) -> Assembled:
    """Create missing collections and build all systems."""
    systems = assembly.with_systems(settings.system_packages)
    existing = set(db.list_collection_names())
    schema.apply(db, [one for one in assembly.collections(systems) if one.name not in existing])
    return assembly.assemble(db, mode=settings.transaction_mode, systems=systems)
