"""Each system alone, in a database of its own: nothing of another is needed or made."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from squinney import assembly
from squinney.assembly import SYSTEMS
from squinney.core import CORE_COLLECTIONS
from squinney.errors import Invalid
from squinney.http.site_options import SiteOptions
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.service.doctor import examine
from squinney.service.fixed_keys import fixed_keys
from squinney.service.jobs import JobWorker
from squinney.service.site import create_site
from squinney.settings import Settings
from squinney.system import System
from tests.crawling import crawl

KEY = "k" * 40
CORE = {collection.name for collection in CORE_COLLECTIONS} | {"squinney.schema"}
every_system = pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)


def own(name: str) -> bool:
    """Return whether a collection is not one of the server's, such as those of time series."""
    return not name.startswith("system.")


@every_system
def test_a_system_runs_alone(system: System, db: Db, quick_passwords: None) -> None:
    """With its demo, its jobs, its pages and its checks."""
    schema.apply(db, assembly.collections([system]))
    assembly.load_demo(db, [system])
    built = assembly.assemble(db, systems=[system])
    worker = JobWorker(db, assembly.jobs([system]))
    worker.register_jobs()
    assert {worker.run(job.name) for job in assembly.jobs([system])} == {"ok"}
    with TestClient(create_site(built, options=SiteOptions(api_keys=[KEY]))) as visitor:
        statuses = crawl(visitor)
        assert {path: status for path, status in statuses.items() if status >= 400} == {}
        others = [other.path for other in SYSTEMS if other is not system]
        assert [path for path in statuses if path.split("/")[1] in others] == []
        if system.name != "identity":
            assert "/sign-in" not in statuses
            assert_keys_of_the_setting(visitor, system)
    built.close()
    assert [finding for finding in examine(db, systems=[system]) if finding.level == "problem"] == []
    made = {name for name in db.list_collection_names() if own(name)}
    assert made == CORE | {collection.name for collection in system.collections if own(collection.name)}


def assert_keys_of_the_setting(visitor: TestClient, system: System) -> None:
    path = next(iter(visitor.app.openapi()["paths"]))  # type: ignore[attr-defined]
    answers = [
        visitor.get(re.sub(r"\{[^}]*\}", "none", path), headers=headers).status_code
        for headers in ({}, {"Authorization": f"Bearer {KEY[:-1]}"}, {"Authorization": f"Bearer {KEY}"})
    ]
    if path.startswith("/api/"):
        assert answers[:2] == [401, 401], path
        assert answers[2] not in (401, 403, 500), path


@pytest.mark.parametrize(
    ("given", "has_identity", "reason"),
    [
        ({}, False, "without the system identity, the keys of the API must be set here"),
        ({"api_keys": "short"}, False, "at least 32 characters"),
        ({"api_keys": KEY}, True, "keys are made by `squinney keys create`"),
    ],
)
def test_keys_of_the_setting_are_refused_where_they_cannot_work(
    given: dict[str, Any], has_identity: bool, reason: str
) -> None:
    with pytest.raises(Invalid, match=reason):
        fixed_keys(Settings(**given), has_identity=has_identity)
    assert fixed_keys(Settings(api_keys=f"{KEY}, {KEY}2"), has_identity=False) == [KEY, f"{KEY}2"]


def test_systems_are_chosen_by_name() -> None:
    assert assembly.chosen_systems() == assembly.chosen_systems(["all"]) == SYSTEMS
    chosen = assembly.chosen_systems(["commerce", "squinney.ledger"])
    assert [system.name for system in chosen] == ["commerce", "ledger"]
    assert [system.name for system in assembly.chosen_systems(["all", "polls"])[:-1]] == [s.name for s in SYSTEMS]
    assert assembly.chosen_systems(["all", "polls"])[-1].name == "polls"
    with pytest.raises(Invalid, match="there is no system shop: Squinney has analytics, ledger, commerce"):
        assembly.chosen_systems(["shop"])
    with pytest.raises(Invalid, match=r"there is no system \.\./x"):
        assembly.chosen_systems(["../x"])
