"""What operators see: metrics, the files that use them, log lines of requests and of slow commands."""

from __future__ import annotations

import json
import logging
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from pymongo import monitoring
from starlette.testclient import TestClient

from squinney import assembly
from squinney.errors import Conflict
from squinney.http.site_options import SiteOptions
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db
from squinney.patterns.queue import Queue, backlogs
from squinney.service.observing import driver
from squinney.service.site import create_site
from squinney.transactions.attempts import Tries

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = re.compile(r"\b(?:squinney|process)_\w+")
SECRET = b"the secret of the tests, long enough"


def exposed(site: TestClient) -> dict[str, float]:
    """Return the values of all samples; of those with labels their sum."""
    samples: dict[str, float] = {}
    for family in text_string_to_metric_families(site.get("/metrics").text):
        for sample in family.samples:
            samples[sample.name] = samples.get(sample.name, 0) + sample.value
    return samples


def expressions() -> list[str]:
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    panels = json.loads((DEPLOY / "dashboard.json").read_text())["panels"]
    return [rule["expr"] for rule in rules] + [one["expr"] for panel in panels for one in panel["targets"]]


def test_the_alerts_and_the_dashboard_use_metrics_that_exist(site: TestClient, systems: assembly.Assembled) -> None:
    queue = Queue(systems.db, "mail")
    queue.put({"to": "ada"})
    site.get("/shop")
    families = {family.name for family in text_string_to_metric_families(site.get("/metrics").text)}
    known = {
        name for family in families for name in (family, *(f"{family}_{end}" for end in ("total", "bucket", "info")))
    }
    used = {name for expression in expressions() for name in NAME.findall(expression)}
    assert used
    assert used - known == set()


def test_the_queues_and_the_disk_are_measured(site: TestClient, systems: assembly.Assembled) -> None:
    queue = Queue(systems.db, "mail", max_tries=1, visibility_seconds=0.001, backoff_seconds=0.001)
    queue.put({"to": "ada"})
    queue.put({"to": "bob"})
    assert backlogs(systems.db)["mail"].due == 2
    samples = exposed(site)
    assert samples["squinney_queue_due"] == 2
    assert samples["squinney_queue_lag_seconds"] >= 0
    assert samples["squinney_mongodb_disk_bytes"] > 0
    assert samples["squinney_build_info"] == 1
    assert samples["process_resident_memory_bytes"] > 0


def test_tries_that_met_another_operation_are_counted(site: TestClient) -> None:
    before = exposed(site).get("squinney_tries_total", 0)
    Tries(10).pause()
    with pytest.raises(Conflict):
        Tries(0).pause()
    assert exposed(site)["squinney_tries_total"] == before + 2


def test_commands_and_waits_for_connections_are_counted(site: TestClient, mongod: Any) -> None:
    before = exposed(site)
    with client_for(mongod.uri, event_listeners=[driver.CommandMetrics(0), driver.Pools()]) as client:
        client["x"]["y"].find_one()
    after = exposed(site)
    for name in ("squinney_mongodb_command_seconds_count", "squinney_mongodb_pool_wait_seconds_count"):
        assert after[name] > before.get(name, 0)


def test_a_slow_command_is_logged_without_its_values(mongod: Any, db: Db, caplog: pytest.LogCaptureFixture) -> None:
    with client_for(mongod.uri, event_listeners=[driver.CommandMetrics(1e-9)]) as client:
        client[db.name]["people"].find_one({"login": "ada", "age": {"$gt": 41}, "$or": [{"secret": "s3"}]})
    line = next(record.getMessage() for record in caplog.records if record.name == "squinney.slow")
    assert line.startswith("slow: find people {")
    assert "'login': '?'" in line
    assert "{'$gt': '?'}" in line
    for value in ("ada", "41", "s3"):
        assert value not in line


def test_a_command_that_is_quick_or_waits_on_purpose_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    listener = driver.CommandMetrics(5)
    for name, seconds in (("find", 4), ("getMore", 9)):
        listener.started(monitoring.CommandStartedEvent({name: "c"}, "db", 1, ("a", 1), 1))
        listener.succeeded(monitoring.CommandSucceededEvent(timedelta(seconds=seconds), {}, name, 1, ("a", 1), 1))
    assert caplog.records == []


@pytest.mark.parametrize("addresses", [False, True])
def test_the_line_of_a_request_has_route_and_person_but_no_id(
    site: TestClient, systems: assembly.Assembled, addresses: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "squinney.requests")
    app = create_site(systems, options=SiteOptions(secret=SECRET, log_addresses=addresses))
    with TestClient(app, cookies=site.cookies) as browser:
        assert browser.get("/ledger").status_code == 200
    (record,) = [record for record in caplog.records if record.name == "squinney.requests"]
    fields: dict[str, Any] = vars(record)["fields"]
    assert fields["route"] == "/ledger"
    assert len(fields["person"]) == 12
    assert "admin" not in str(fields)
    assert ("address" in fields) is addresses
