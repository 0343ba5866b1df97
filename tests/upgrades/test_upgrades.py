"""Databases of released versions are read by this one: nothing is lost, nothing is a problem, every page opens."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from bson import json_util
from starlette.testclient import TestClient
from tools.write_dump import totals

from squinney import assembly
from squinney.http.site_options import SiteOptions
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.service import doctor
from squinney.service.commands.migrate import run_all
from squinney.service.site import create_site

DUMPS = sorted(Path(__file__).parent.glob("*.jsonl.gz"))
OPTIONS = json_util.JSONOptions(tz_aware=True, json_mode=json_util.JSONMode.CANONICAL)
BATCH = 1_000


def restore(db: Db, dump: Path) -> dict[str, Any]:
    """Load a dump; return what must be found again."""
    with gzip.open(dump, "rt", encoding="utf-8") as opened:
        read = (json_util.loads(line, json_options=OPTIONS) for line in opened)
        head: dict[str, Any] = next(read)
        documents: list[Any] = []
        name = ""
        for one in read:
            if "collection" in one and "indexes" in one:
                _insert(db, name, documents)
                name, documents = one["collection"], []
                db.create_collection(name, check_exists=False, **one["options"])
                _create_indexes(db, name, one["indexes"])
            else:
                documents.append(one)
        _insert(db, name, documents)
    return head


def _create_indexes(db: Db, name: str, indexes: list[dict[str, Any]]) -> None:
    made = [index for index in indexes if index["name"] != "_id_" and not index.get("clustered")]
    if made:
        db.command("createIndexes", name, indexes=[_as_text(index) for index in made])


def _as_text(index: dict[str, Any]) -> dict[str, Any]:
    """Name the fields of a text index by its weights: the server tells them in a form that it does not take."""
    if "weights" not in index:
        return index
    plain = {field: kind for field, kind in index["key"].items() if not field.startswith("_fts")}
    left_out = ("textIndexVersion",)
    kept = {key: value for key, value in index.items() if key not in left_out}
    return {**kept, "key": {**plain, **dict.fromkeys(index["weights"], "text")}}


def _insert(db: Db, name: str, documents: list[Any]) -> None:
    remaining: Iterator[Any] = iter(documents)
    while batch := list(islice(remaining, BATCH)):
        db[name].insert_many(batch)


def test_the_release_has_its_dump() -> None:
    assert "0.1.0.jsonl.gz" in {dump.name for dump in DUMPS}


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.name.removesuffix(".jsonl.gz"))
@pytest.mark.usefixtures("quick_passwords")
def test_a_database_of_a_release_is_read(db: Db, dump: Path) -> None:
    head = restore(db, dump)
    assert totals(db) == head["totals"], "the dump is loaded as it was written"
    schema.apply(db, assembly.collections())
    assert not any(report["failed"] for report in run_all(db, list(assembly.SYSTEMS), Event(), quiet=True).values())
    assert [found for found in doctor.examine(db, seconds=None) if found.level == "problem"] == []
    assert totals(db)["balances"] == head["totals"]["balances"]
    assert totals(db)["orders"] == head["totals"]["orders"]
    systems = assembly.assemble(db)
    with TestClient(create_site(systems, options=SiteOptions(secret=b"s" * 32))) as browser:
        for path in ("/", *(f"/{system.path}" for system in systems.systems if system.name != "identity")):
            assert browser.get(path, headers={"Accept": "text/html"}).status_code == 200, path
    systems.close()
