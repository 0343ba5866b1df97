"""`squinney migrate` on a system with old documents."""

from __future__ import annotations

from dataclasses import replace
from threading import Event
from typing import Any, Literal

from squinney.assembly import system_named
from squinney.mongo.schema import Db
from squinney.patterns.migrations import Migration
from squinney.patterns.polymorphic import Document, Types, upgrades
from squinney.service.commands.migrate import run_all


class Song(Document):
    """A type whose second version has a separate title."""

    type: Literal["song"] = "song"
    schema_version: int = 2
    title: str
    artist: str


@upgrades(Song, 1)
def _split(document: dict[str, Any]) -> dict[str, Any]:
    artist, _, title = document.pop("line").partition(" - ")
    return {**document, "artist": artist, "title": title}


def system_with_songs() -> Any:
    """Return the system of the ledger, with a migration of songs."""
    return replace(system_named("ledger"), migrations=lambda db: [Migration(db["songs"], Types(Document, Song))])


def test_old_documents_are_upgraded_and_failures_named(db: Db, capsys: Any) -> None:
    old = [{"_id": n, "type": "song", "schema_version": 1, "line": f"Band {n} - Tune"} for n in range(30)]
    db["songs"].insert_many([*old, {"_id": 99, "type": "song", "schema_version": 1}])
    reports = run_all(db, [system_with_songs()], Event())
    assert (reports["songs"]["upgraded"], reports["songs"]["failed"]) == (30, 1)
    assert db["songs"].find_one({"_id": 7})["artist"] == "Band 7"
    assert db["songs"].find_one({"_id": 99}) == {"_id": 99, "type": "song", "schema_version": 1}


def test_a_stopped_migration_continues_later(db: Db) -> None:
    stop = Event()
    stop.set()
    assert run_all(db, [system_with_songs()], stop) == {}


def test_without_typed_documents_there_is_nothing_to_do(squinney: Any, ready_db: Db) -> None:
    result = squinney("migrate", "ads")
    assert (result.returncode, result.stdout) == (0, "nothing to migrate\n")


def test_an_unknown_system_is_refused(squinney: Any, ready_db: Db) -> None:
    result = squinney("migrate", "ledgers")
    assert result.returncode == 3
    assert "there is no system ledgers" in result.stderr
