"""The metrics at `/metrics`, in a registry of each application."""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator
from typing import Any, NamedTuple

import pymongo
from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pymongo.errors import OperationFailure

from squinney import __version__
from squinney.errors import SquinneyError
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job
from squinney.patterns.queue import MAX_COUNTED, backlogs
from squinney.service.jobs import statuses
from squinney.service.observing.driver import COLLECTORS
from squinney.transactions.attempts import retries

log = logging.getLogger(__name__)

WAIT_SECONDS = 2.0
BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Slow(NamedTuple):
    """A route, how many requests it had, and the mean time until its response started."""

    method: str
    route: str
    requests: int
    seconds: float


class Metrics:
    """Counts requests, operations, job runs and connections."""

    def __init__(self, db: Db, jobs: list[Job]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        build = Info("squinney_build", "Versions", registry=self.registry)
        build.info({"version": __version__, "python": platform.python_version(), "pymongo": pymongo.version})
        for collector in COLLECTORS:
            self.registry.register(collector)
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

    def slowest(self, limit: int = 5) -> list[Slow]:
        """Return the routes whose responses took longest on average since this process was started."""
        counts: dict[tuple[str, str], float] = {}
        sums: dict[tuple[str, str], float] = {}
        for sample in (sample for metric in self._seconds.collect() for sample in metric.samples):
            kept = {"_count": counts, "_sum": sums}.get(sample.name.removeprefix("squinney_request_seconds"))
            if kept is not None:
                kept[sample.labels["method"], sample.labels["route"]] = sample.value
        routes = [Slow(*key, int(count), sums[key] / count) for key, count in counts.items() if count]
        return sorted(routes, key=lambda route: -route.seconds)[:limit]

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
        yield from (up, late, failures, self._pool(), self._retries())
        yield from self._server()

    def _retries(self) -> CounterMetricFamily:
        """Return how often transactions and other tries met other operations."""
        counts = retries()
        family = CounterMetricFamily("squinney_tries", "Tries that met another operation", labels=["outcome"])
        family.add_metric(["retried"], counts["retried"])
        family.add_metric(["given_up"], counts["given up"])
        return family

    def _server(self) -> Iterator[Metric]:
        """Yield the queues and the disk, unless the server does not answer or does not tell this user."""
        due = GaugeMetricFamily("squinney_queue_due", f"Due tasks, counted up to {MAX_COUNTED}", labels=["queue"])
        lag = GaugeMetricFamily("squinney_queue_lag_seconds", "How long the oldest task has been due", labels=["queue"])
        dead = GaugeMetricFamily("squinney_queue_dead", f"Dead letters, up to {MAX_COUNTED}", labels=["queue"])
        disk = GaugeMetricFamily("squinney_mongodb_disk_bytes", "The disk of MongoDB", labels=["state"])
        try:
            with operation(WAIT_SECONDS, reads_only=True):
                for name, backlog in backlogs(self._db).items():
                    due.add_metric([name], backlog.due)
                    lag.add_metric([name], backlog.oldest_seconds)
                    dead.add_metric([name], backlog.dead)
                sizes = self._db.command("dbStats")
                disk.add_metric(["used"], sizes.get("fsUsedSize", 0))
                disk.add_metric(["total"], sizes.get("fsTotalSize", 0))
        except (SquinneyError, OperationFailure):
            log.debug("the queues and the disk cannot be read", exc_info=True)
        yield from (due, lag, dead, disk)

    def _pool(self) -> GaugeMetricFamily:
        """Return the numbers of idle and used connections of this process's client."""
        family = GaugeMetricFamily("squinney_mongodb_connections", "Open connections", labels=["state"])
        topology: Any = getattr(self._db.client, "_topology", None)
        pools = [server.pool for server in list(getattr(topology, "_servers", {}).values())]
        family.add_metric(["idle"], sum(len(pool.conns) for pool in pools))
        family.add_metric(["used"], sum(pool.active_sockets for pool in pools))
        return family
