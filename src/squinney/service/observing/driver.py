"""What the driver does in this process: waits for connections, durations of commands, and slow ones in the log."""

from __future__ import annotations

import logging
import threading
from typing import Any

from prometheus_client import Counter, Histogram
from prometheus_client.registry import Collector
from pymongo import monitoring

log = logging.getLogger("squinney.slow")

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
WAITING = {"getMore"}  # follows changes: it waits on purpose
MAX_KEPT = 10_000
MAX_SHOWN = 300
# No registry: each application's registry includes these, since the driver's listeners are of the process.
COMMANDS = Histogram(
    "squinney_mongodb_command_seconds", "Seconds of commands", ["command"], buckets=BUCKETS, registry=None
)
FAILED = Counter("squinney_mongodb_command_failures", "Commands that failed", ["command"], registry=None)
POOL_WAITS = Histogram("squinney_mongodb_pool_wait_seconds", "Waits for a connection", buckets=BUCKETS, registry=None)
POOL_REFUSED = Counter("squinney_mongodb_pool_timeouts", "Waits for a connection in vain", registry=None)
COLLECTORS: tuple[Collector, ...] = (COMMANDS, FAILED, POOL_WAITS, POOL_REFUSED)


class CommandMetrics(monitoring.CommandListener):
    """Counts commands, and logs those slower than `slow_seconds` without the values in them."""

    def __init__(self, slow_seconds: float) -> None:
        self._slow_seconds = slow_seconds
        self._running: dict[int, monitoring.CommandStartedEvent] = {}

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Remember a command until it has ended, for the log."""
        if self._slow_seconds and event.command_name not in WAITING and len(self._running) < MAX_KEPT:
            self._running[event.request_id] = event

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Count a command."""
        self._ended(event)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Count a command and its failure."""
        FAILED.labels(event.command_name).inc()
        self._ended(event)

    def _ended(self, event: monitoring.CommandSucceededEvent | monitoring.CommandFailedEvent) -> None:
        seconds = event.duration_micros / 1e6
        if event.command_name not in WAITING:
            COMMANDS.labels(event.command_name).observe(seconds)
        begun = self._running.pop(event.request_id, None)
        if begun is not None and seconds >= self._slow_seconds:
            log_slow(begun, seconds)


class Pools(monitoring.ConnectionPoolListener):
    """Counts waits for connections; the events that it does not count are ignored."""

    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None:
        """Count a wait."""
        POOL_WAITS.observe(event.duration or 0)

    def connection_check_out_failed(self, event: monitoring.ConnectionCheckOutFailedEvent) -> None:
        """Count a wait in vain."""
        POOL_REFUSED.inc()

    def connection_check_out_started(self, event: object) -> None:
        """Ignore."""

    def connection_checked_in(self, event: object) -> None:
        """Ignore."""

    def connection_closed(self, event: object) -> None:
        """Ignore."""

    def connection_created(self, event: object) -> None:
        """Ignore."""

    def connection_ready(self, event: object) -> None:
        """Ignore."""

    def pool_cleared(self, event: object) -> None:
        """Ignore."""

    def pool_closed(self, event: object) -> None:
        """Ignore."""

    def pool_created(self, event: object) -> None:
        """Ignore."""

    def pool_ready(self, event: object) -> None:
        """Ignore."""


_registered = threading.Event()


def watch_driver(slow_seconds: float) -> None:
    """Watch the clients that this process makes from now on."""
    if not _registered.is_set():
        _registered.set()
        monitoring.register(CommandMetrics(slow_seconds))
        monitoring.register(Pools())


def log_slow(event: monitoring.CommandStartedEvent, seconds: float) -> None:
    """Log a command's shape: which fields it has, but none of the values, which may be private."""
    target = event.command.get(event.command_name)
    collection = target if isinstance(target, str) else ""
    shape = str(shape_of({name: event.command.get(name) for name in SHOWN if name in event.command}))[:MAX_SHOWN]
    fields = {"command": event.command_name, "collection": collection, "ms": round(seconds * 1000, 1), "shape": shape}
    log.warning("slow: %s %s %s", event.command_name, collection, shape, extra={"fields": fields})


SHOWN = ("filter", "query", "q", "sort", "pipeline", "updates", "deletes", "update", "limit")


def shape_of(value: Any) -> Any:
    """Return a value with every value in it replaced; names of fields and operators stay."""
    if isinstance(value, dict):
        return {str(name): shape_of(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shape_of(inner) for inner in value[:3]]
    return "?"
