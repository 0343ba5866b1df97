"""Checks that every system must pass, including new ones. Each failure says what to add."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from squinney import assembly
from squinney.assembly import SYSTEMS
from squinney.http.routes import paths_of
from squinney.mongo.schema import Db
from squinney.service.commands.main import command_for
from squinney.service.site import create_site
from squinney.system import System
from squinney.transactions import Transactions
from tests.crash.case import cases
from tests.plugins.shelf import Prepared

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "squinney"
every_system = pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)


def test_every_folder_with_a_system_is_listed() -> None:
    declared = sorted(f"squinney.{path.parent.name}" for path in SOURCE.glob("*/system.py"))
    assert sorted(system.package for system in SYSTEMS) == declared, "add its package to SYSTEMS in assembly.py"


@every_system
def test_it_exports_what_it_is_made_of(system: System, db: Db) -> None:
    package = importlib.import_module(system.package)
    classes = [type(made).__name__ for made in system.build(db, Transactions(db)).values()]
    for name in ("COLLECTIONS", "QUERIES", "find_problems", "repair", *classes):
        assert name in package.__all__, f"{system.package}.__init__ must import {name} and list it in __all__"


@every_system
def test_its_operations_have_crash_cases(system: System) -> None:
    found = [case.name for case in cases() if case.system == system.name]
    assert found, f"write tests/crash/cases_{system.name}.py: see 'Add a crash case' in CONTRIBUTING.md"


@every_system
def test_it_has_tests_and_a_page_of_documentation(system: System) -> None:
    tests, page = ROOT / "tests" / "systems" / system.name, ROOT / "docs" / f"{system.name}.md"
    assert list(tests.glob("test_*.py")), f"put its tests into {tests.relative_to(ROOT)}"
    assert page.is_file(), f"write docs/{system.name}.md"
    index = (ROOT / "docs" / "index.md").read_text()
    assert re.search(rf"^{system.name}$", index, re.MULTILINE), f"add a line `{system.name}` to docs/index.md"


@every_system
def test_nothing_is_wrong_with_it_when_it_is_empty(system: System, prepared: Prepared) -> None:
    db = prepared([*assembly.CORE_COLLECTIONS, *system.collections])
    assert [str(problem) for problem in system.find_problems(db)] == []
    assert not +system.repair(db)
    assert all(isinstance(value, int | str) for value in system.figures(db).values())
    for job in system.jobs:
        job.run(db)


@every_system
def test_it_queries_only_its_own_and_the_core_collections(system: System) -> None:
    own = {one.name for one in [*assembly.CORE_COLLECTIONS, *system.collections]}
    strange = {query.name: query.collection for query in system.queries if query.collection not in own}
    assert strange == {}, (
        "declare the collection in the system's COLLECTIONS, or move the query to the system that owns it"
    )


def test_no_two_systems_share_a_name_a_collection_a_job_or_a_path() -> None:
    names = Counter(system.name for system in SYSTEMS)
    collections = Counter(one.name for one in assembly.collections())
    jobs = Counter(job.name for job in assembly.jobs())
    paths = Counter(system.path for system in SYSTEMS)
    for counted in (names, collections, jobs, paths):
        assert [name for name, count in counted.items() if count > 1] == []


@every_system
def test_its_routes_are_below_its_own_paths(system: System) -> None:
    """The scopes of API keys are derived from the first part of a path, so two systems must not share it."""
    others = {
        path.split("/")[2]
        for other in SYSTEMS
        if other is not system and (module := other.surface("api"))
        for path in paths_of(module.router)
    }
    module = system.surface("api")
    for path in paths_of(module.router) if module else ():
        assert path.startswith("/api/"), f"{path}: begin it with /api/{system.name}"
        assert path.split("/")[2] not in others, f"{path}: another system has routes there"


def test_a_system_without_pages_is_in_no_menu(prepared: Prepared) -> None:
    """Nor is a system whose pages do not start at its path; its checks and jobs still run."""
    mute = System("tests.crash", "Mute", "Has no surface.", (), (), build=lambda db, transactions: {})
    systems = (*SYSTEMS, mute)
    site = create_site(assembly.assemble(prepared(assembly.collections(systems)), systems=systems))
    shown = {system.name for system in site.state.menu}
    assert {"analytics", "ledger", "commerce", "content"} <= shown
    assert shown.isdisjoint({mute.name, "identity"})
    with TestClient(site) as visitor:
        home = visitor.get("/", headers={"accept": "text/html"}).text
    assert "/ledger" in home
    assert "Mute" not in home


def test_commands_of_a_system_are_named_after_it() -> None:
    groups = {group.name for group in command_for(SYSTEMS).registered_groups}
    of_systems = {system.name for system in SYSTEMS if system.surface("cli")} - {"identity"}
    assert groups == {"jobs", "keys", "shard", "users"} | of_systems
