"""Spans of OpenTelemetry: one tree from the caller's `traceparent` to the commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient
from tests.api.conftest import SECRET

from squinney import assembly
from squinney.http.site_options import SiteOptions
from squinney.mongo.connect import client_for
from squinney.mongo.deadlines import observe_operations
from squinney.mongo.embedded import Embedded
from squinney.service.observing.traces import CommandSpans, OperationSpans, watch_with_spans
from squinney.service.site import create_site

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
Spans = dict[str, ReadableSpan]


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """Return the exporter of this process; a provider can be set only once."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def traced(
    systems: assembly.Assembled, mongod: Embedded, exporter: InMemorySpanExporter
) -> Iterator[tuple[TestClient, assembly.Assembled]]:
    """Return a client of a site whose operations and commands are traced."""
    observe_operations(OperationSpans())
    try:
        with client_for(mongod.uri, event_listeners=[CommandSpans()]) as client:
            built = assembly.assemble(client[systems.db.name])
            app = create_site(built, options=SiteOptions(secret=SECRET))
            with TestClient(app, raise_server_exceptions=False) as browser:
                _, key = built.services["identity"]["keys"].create("tests", ["*:write"])
                browser.headers["Authorization"] = f"Bearer {key}"
                exporter.clear()
                yield browser, built
    finally:
        observe_operations(None)


def family(exporter: InMemorySpanExporter, span: ReadableSpan) -> list[str]:
    """Return the names of a span's parents, the nearest first."""
    by_id = {one.context.span_id: one for one in exporter.get_finished_spans() if one.context}
    names = []
    while span.parent is not None and span.parent.span_id in by_id:
        span = by_id[span.parent.span_id]
        names.append(span.name)
    return names


def test_a_transfer_is_one_trace_of_the_caller(
    traced: tuple[TestClient, assembly.Assembled], exporter: InMemorySpanExporter
) -> None:
    browser, built = traced
    accounts = built.services["ledger"]["accounts"]
    ids = [accounts.open("EUR", 10_000)["_id"] for _ in range(2)]
    exporter.clear()
    body = {"src": ids[0], "dst": ids[1], "amount": 5}
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "Idempotency-Key": "t"}
    answer = browser.post("/api/ledger/transfers", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    spans = [span for span in exporter.get_finished_spans() if span.context and span.context.trace_id == int(TRACE, 16)]
    (request,) = [span for span in spans if span.kind is trace.SpanKind.SERVER]
    assert request.parent
    assert request.parent.span_id == int(PARENT, 16)
    written = [span for span in spans if span.kind is trace.SpanKind.CLIENT]
    assert written, [span.name for span in spans]
    for span in written:
        assert span.attributes
        assert span.attributes["db.system.name"] == "mongodb"
        assert family(exporter, span)[-1] == request.name, "every command is below the request"
    assert any("Accounts" in name for span in written for name in family(exporter, span))
    assert ids[0] not in str([span.attributes for span in spans]), "no values"


def test_a_refusal_and_a_guarded_run_are_in_the_tree(
    traced: tuple[TestClient, assembly.Assembled], exporter: InMemorySpanExporter
) -> None:
    _, built = traced
    accounts = built.services["ledger"]["accounts"]
    first, second = (accounts.open("EUR")["_id"] for _ in range(2))
    exporter.clear()
    with pytest.raises(Exception, match="balance"):
        accounts.transfer(first, second, 5)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert "Accounts.transfer" in spans, list(spans)
    refused = spans["Accounts.transfer"]
    assert refused.status.status_code is trace.StatusCode.ERROR
    assert refused.attributes
    assert refused.attributes["error.type"] == "insufficient-funds"
    assert [name for name in spans if name.startswith("run ")], list(spans)


def test_a_span_of_a_request_has_no_query_string(
    traced: tuple[TestClient, assembly.Assembled], exporter: InMemorySpanExporter
) -> None:
    browser, _ = traced
    browser.get("/welcome?token=a-secret-link")
    assert "a-secret-link" not in str([span.to_json() for span in exporter.get_finished_spans()])
    (request,) = [span for span in exporter.get_finished_spans() if span.kind is trace.SpanKind.SERVER]
    assert request.attributes
    assert request.attributes["http.route"] == "/welcome"


def test_without_an_exporter_nothing_is_traced(exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squinney.service.observing.traces._has_provider", lambda: False)
    assert not watch_with_spans({})
    monkeypatch.setattr("squinney.service.observing.traces.trace", None)
    assert not watch_with_spans({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
