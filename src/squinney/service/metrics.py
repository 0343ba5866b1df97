"""The metrics at `/metrics`, in a registry of each application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from squinney.errors import SquinneyError
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job
from squinney.service.jobs import statuses

WAIT_SECONDS = 2.0
BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    """Counts requests, operations, job runs and connections."""

    def __init__(self, db: Db, jobs: list[Job]) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "squinney_requests", "Requests by route and status", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "squinney_request_seconds",
            "Seconds until the response started",
            ["method", "route"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._operations = Counter(
            "squinney_operations", "Requests by system and outcome", ["system", "outcome"], registry=self.registry
        )
        self._job_runs = Counter(
            "squinney_job_runs", "Runs of jobs in this process", ["job", "outcome"], registry=self.registry
        )
        self._job_seconds = Counter(
            "squinney_job_run_seconds", "Seconds spent in jobs in this process", ["job"], registry=self.registry
        )
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram, Counter]] = {}
        self.registry.register(_OnDemand(db, jobs))

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request whose response has started."""
        known = self._known.get((method, route, status))
        if known is None:
            known = self._known[method, route, status] = (
                self._requests.labels(method, route, str(status)),
                self._seconds.labels(method, route),
                self._operations.labels(_system_of(route), outcome_of(status)),
            )
        requests, latencies, operations = known
        requests.inc()
        latencies.observe(seconds)
        operations.inc()

    def job_run(self, name: str, outcome: str, seconds: float) -> None:
        """Count a run of a job."""
        self._job_runs.labels(name, outcome).inc()
        self._job_seconds.labels(name).inc(seconds)


def _system_of(route: str) -> str:
    parts = route.strip("/").split("/")
    return parts[1] if parts[0] == "api" and len(parts) > 1 else parts[0] or "home"


def outcome_of(status: int) -> str:
    """Return the outcome of a status: `ok`, `refused`, `unavailable` or `failed`."""
    if status < 400:
        return "ok"
    if status < 500:
        return "refused"
    return "unavailable" if status == 503 else "failed"


class _OnDemand(Collector):
    """Reads job lag and the connection pool whenever the metrics are collected."""

    def __init__(self, db: Db, jobs: list[Job]) -> None:
        self._db = db
        self._jobs = jobs

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not read the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the current values; if MongoDB is unreachable, only that and the pool."""
        up = GaugeMetricFamily("squinney_mongodb_up", "Whether MongoDB answers")
        late = GaugeMetricFamily("squinney_job_late_seconds", "Seconds for which a job has been due", labels=["job"])
        failures = GaugeMetricFamily("squinney_job_failures", "Failed runs in a row", labels=["job"])
        try:
            with operation(WAIT_SECONDS, reads_only=True):
                for status in statuses(self._db, self._jobs):
                    late.add_metric([status.name], status.late_seconds)
                    failures.add_metric([status.name], status.failures)
            up.add_metric([], 1)
        except SquinneyError:
            up.add_metric([], 0)
        yield from (up, late, failures, self._pool())

    def _pool(self) -> GaugeMetricFamily:
        """Return the numbers of idle and used connections of this process's client."""
        family = GaugeMetricFamily("squinney_mongodb_connections", "Open connections", labels=["state"])
        topology: Any = getattr(self._db.client, "_topology", None)
        pools = [server.pool for server in list(getattr(topology, "_servers", {}).values())]
        family.add_metric(["idle"], sum(len(pool.conns) for pool in pools))
        family.add_metric(["used"], sum(pool.active_sockets for pool in pools))
        return family
