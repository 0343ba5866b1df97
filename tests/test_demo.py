"""The demo data, as the first start loads it."""

from __future__ import annotations

from squinney import assembly
from tests.plugins.shelf import Prepared
from tests.racing import at_once


def test_processes_that_start_at_once_load_it_once(prepared: Prepared) -> None:
    db = prepared(assembly.collections())
    at_once(3, lambda _: assembly.load_demo(db))
    assert db["ledger.accounts"].count_documents({}) == 4
    assert db["analytics.imports"].count_documents({}) == 1
    assert {loaded["_id"] for loaded in db["squinney.demo"].find()} == {system.name for system in assembly.SYSTEMS}
    assert [problem for system in assembly.SYSTEMS for problem in system.find_problems(db)] == []
    before = {name: db[name].estimated_document_count() for name in db.list_collection_names()}
    assembly.load_demo(db)
    assert {name: db[name].estimated_document_count() for name in db.list_collection_names()} == before
