"""MongoDB is killed and restarted while callers send requests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded

CALLERS = 8
TIME_LIMIT_SECONDS = 15.0
ENVIRONMENT = {"SQUINNEY_SECRET": "test " * 8, "SQUINNEY_RATE_PER_KEY": "0", "PORT": "0", "SQUINNEY_LOG": "json"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Embedded]:
    """Start a MongoDB for this test only, because the test kills it."""
    started = Embedded.start(tmp_path / "data", test_commands=True)
    yield started
    started.stop()


class Service:
    """A running `squinney serve` with an external MongoDB."""

    def __init__(self, uri: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "squinney.service.commands.main", "--uri", uri, "serve", "--no-demo"],
            env={**os.environ, **ENVIRONMENT, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout
        found = re.search(r"http://\S+:\d+", self.process.stdout.readline())
        assert found
        self.url = found[0]

    def threads(self) -> int:
        return int(psutil.Process(self.process.pid).num_threads())

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)


class Caller(threading.Thread):
    """A thread that transfers money with idempotency keys and reads accounts, and records statuses and times."""

    def __init__(self, url: str, key: str, accounts: list[str], stop: threading.Event, number: int) -> None:
        super().__init__()
        self._client = httpx.Client(base_url=url, timeout=30, headers={"Authorization": f"Bearer {key}"})
        self._accounts = accounts
        self._stop_calling = stop
        self._number = number
        self.statuses: Counter[int] = Counter()
        self.slowest = 0.0
        self.acknowledged: set[str] = set()
        self.faults: list[str] = []

    def run(self) -> None:
        for count in range(1_000_000):
            if self._stop_calling.is_set():
                break
            self._call("GET", f"/api/ledger/accounts/{self._accounts[count % 2]}")
            memo = f"{self._number}-{count}"
            body = {"src": self._accounts[count % 2], "dst": self._accounts[1 - count % 2], "amount": 1, "memo": memo}
            response = self._call("POST", "/api/ledger/transfers", json=body, headers={"Idempotency-Key": memo})
            if response.status_code == 201:
                self.acknowledged.add(memo)
        self._client.close()

    def _call(self, method: str, path: str, **options: Any) -> httpx.Response:
        began = time.monotonic()
        response = self._client.request(method, path, **options)
        self.slowest = max(self.slowest, time.monotonic() - began)
        self.statuses[response.status_code] += 1
        if response.status_code == 503 and not response.headers.get("retry-after"):
            self.faults.append("503 without Retry-After")
        if response.status_code >= 500 and response.status_code != 503:
            self.faults.append(response.text)
        time.sleep(0.01)
        return response


@pytest.mark.timeout(240)
def test_callers_get_503_in_time_and_service_resumes_by_itself(server: Embedded) -> None:
    with client_for(server.uri) as client:
        db = client["squinney"]
        schema.apply(db, assembly.collections())
        systems = assembly.assemble(db)
        ledger = systems.services["ledger"]["accounts"]
        accounts = [ledger.open("EUR", 10_000)["_id"] for _ in range(2)]
        _, key = systems.services["identity"]["keys"].create("callers", ["ledger:write"])
        service = Service(server.uri)
        try:
            callers, before = _outage(server, service, key, accounts)
        finally:
            service.stop()
        told: Counter[int] = sum((caller.statuses for caller in callers), Counter())
        assert [fault for caller in callers for fault in caller.faults] == []
        assert told[503] > 0
        assert max(caller.slowest for caller in callers) < TIME_LIMIT_SECONDS, "nobody waits longer than the limit"
        assert before["threads after"] <= before["threads"] + CALLERS
        assert ledger.total("EUR") == 20_000
        moved = {entry["memo"] for entry in db["ledger.entries"].find({"amount": {"$lt": 0}})}
        assert set().union(*(caller.acknowledged for caller in callers)) <= moved, "nothing acknowledged is lost"
        assert service.process.returncode in (0, 130, -signal.SIGTERM)


def _outage(server: Embedded, service: Service, key: str, accounts: list[str]) -> tuple[list[Caller], dict[str, int]]:
    stop = threading.Event()
    callers = [Caller(service.url, key, accounts, stop, number) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        _wait(lambda: sum(caller.statuses[201] for caller in callers) > 20)
        figures = {"threads": service.threads()}
        os.kill(server.pid, signal.SIGKILL)
        _wait(lambda: all(caller.statuses[503] for caller in callers))
        with httpx.Client(base_url=service.url, timeout=10) as prober:
            assert prober.get("/healthz").status_code == 200
            assert prober.get("/readyz").status_code == 503
            assert "squinney_mongodb_up 0.0" in prober.get("/metrics").text
            again = Embedded.start(server.folder, test_commands=True)
            done = sum(caller.statuses[201] for caller in callers)
            _wait(lambda: sum(caller.statuses[201] for caller in callers) > done + 50)
            assert prober.get("/readyz").status_code == 200
    finally:
        stop.set()
        for caller in callers:
            caller.join()
    with httpx.Client(base_url=service.url, timeout=10) as prober:
        _wait(lambda: 'connections{state="used"} 0' in prober.get("/metrics").text)
    figures["threads after"] = service.threads()
    again.stop()
    return callers, figures


def _wait(condition: Any, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "the condition was not met in time"
        time.sleep(0.05)
