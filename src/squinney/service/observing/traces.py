"""Spans of OpenTelemetry for operations, guarded runs and commands, below those that FastAPI makes for requests.

FastAPI continues the trace of a `traceparent` and reads the exporter from the environment. Without the extra `tracing`,
or without an exporter, this module does nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from pymongo import monitoring

from squinney.mongo.deadlines import observe_operations
from squinney.service.observing.driver import MAX_KEPT, WAITING

try:
    from opentelemetry import trace
    from opentelemetry.trace import SpanKind, StatusCode
except ImportError:  # without the extra `tracing`
    trace = None  # type: ignore[assignment]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
NAME = "squinney"


def watch_with_spans(environment: Mapping[str, str] = os.environ) -> bool:
    """Make spans from now on, if there is somebody to send them to; return whether there is."""
    if trace is None or not (_has_provider() or any(environment.get(name) for name in ENDPOINTS)):
        return False
    observe_operations(OperationSpans())
    monitoring.register(CommandSpans())
    return True


def _has_provider() -> bool:
    """Return whether a provider was set before, as `opentelemetry-instrument` does."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


class OperationSpans:
    """A span for each operation, inner ones and guarded runs too. It has the error's code, and no values."""

    def __init__(self) -> None:
        self._own = threading.local()

    def entered(self, name: str) -> None:
        """Begin a span, which is the parent of what happens inside."""
        # Without the error's message, which has values.
        whole = trace.get_tracer(NAME).start_as_current_span(
            name, record_exception=False, set_status_on_exception=False
        )
        self._own.__dict__.setdefault("stack", []).append((whole.__enter__(), whole))

    def left(self, error: BaseException | None) -> None:
        """End the span."""
        span, whole = self._own.stack.pop()
        if error is not None:
            span.set_attribute("error.type", getattr(error, "code", "") or type(error).__name__)
            span.set_status(StatusCode.ERROR)
        whole.__exit__(None, None, None)


class CommandSpans(monitoring.CommandListener):
    """A span for each command of an operation, with its name and collection, without values."""

    def __init__(self) -> None:
        self._running: dict[tuple[Any, int], Any] = {}

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Begin a span, unless the command belongs to nothing that is traced."""
        name = event.command_name
        if name in WAITING or len(self._running) >= MAX_KEPT or not trace.get_current_span().is_recording():
            return
        target = event.command.get(name)
        attributes = {"db.system.name": "mongodb", "db.namespace": event.database_name, "db.operation.name": name}
        if isinstance(target, str):
            attributes["db.collection.name"] = target
        title = f"{name} {target}" if isinstance(target, str) else name
        span = trace.get_tracer(NAME).start_span(title, kind=SpanKind.CLIENT, attributes=attributes)
        self._running[event.connection_id, event.request_id] = span

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """End the span."""
        if span := self._running.pop((event.connection_id, event.request_id), None):
            span.end()

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """End the span as failed, with the server's code."""
        if span := self._running.pop((event.connection_id, event.request_id), None):
            span.set_attribute("error.type", str(event.failure.get("code", "connection")))
            span.set_status(StatusCode.ERROR)
            span.end()


def hide_query(scope: Mapping[str, Any]) -> None:
    """Take the query string, which may be private, out of the span that FastAPI has made for a request."""
    if trace is not None and scope["query_string"]:
        # guard: a span has no query string
        trace.get_current_span().set_attribute("url.query", "REDACTED")
