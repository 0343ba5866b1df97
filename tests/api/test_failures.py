"""Internal errors are logged, counted and reported with one request id."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
import time
from typing import Any

import pytest
from pymongo.errors import NetworkTimeout
from starlette.responses import StreamingResponse
from starlette.testclient import TestClient
from tests.api.asgi import call
from tests.racing import at_once

from squinney import assembly
from squinney.errors import Unavailable
from squinney.http.site_options import SiteOptions
from squinney.service import openapi
from squinney.service.observing import logs
from squinney.service.site import create_site

SECRET = b"the secret of the tests, long enough"


@pytest.fixture
def app(systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch) -> Any:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("an internal secret")

    monkeypatch.setattr(type(systems.services["ledger"]["accounts"]), "all", broken)
    return create_site(systems, options=SiteOptions(secret=SECRET))


def key_of(systems: assembly.Assembled) -> dict[str, str]:
    _, key = systems.services["identity"]["keys"].create("test", ["*:read"])
    return {"Authorization": f"Bearer {key}"}


def as_json(records: list[logging.LogRecord]) -> list[dict[str, Any]]:
    """Return the records as JSON log lines."""
    return [json.loads(logs.Json().format(record)) for record in records]


def test_an_internal_error_gives_one_log_line_one_count_and_one_id(app: Any, systems: assembly.Assembled) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logs.Json())
    root = logging.getLogger()
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.INFO)
    try:
        with TestClient(app) as client:
            response = client.get("/api/ledger/accounts", headers=key_of(systems))
            metrics = client.get("/metrics").text
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    identifier = response.headers["x-request-id"]
    assert response.status_code == 500
    assert response.json()["details"] == {"request_id": identifier}
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    ours = [line for line in lines if line.get("request_id") == identifier]
    failures = [line for line in ours if line["level"] == "error"]
    assert len(failures) == 1
    assert failures[0]["path"] == "/api/ledger/accounts"
    assert "an internal secret" in failures[0]["exception"]
    assert [line["status"] for line in ours if line["logger"] == "squinney.requests"] == [500]
    assert 'squinney_operations_total{outcome="failed",system="ledger"} 1.0' in metrics
    assert 'squinney_requests_total{method="GET",route="/api/ledger/accounts",status="500"} 1.0' in metrics


def test_a_page_that_fails_shows_the_id_and_nothing_else(systems: assembly.Assembled) -> None:
    app = create_site(systems, options=SiteOptions(secret=SECRET))
    app.router.routes.insert(0, _route("/broken", _broken))
    with TestClient(app) as client:
        page = client.get("/broken", headers={"Accept": "text/html"})
    assert page.status_code == 500
    assert page.headers["x-request-id"] in page.text
    assert "an internal secret" not in page.text
    assert "content-security-policy" in page.headers


def test_a_failure_during_a_response_leaves_it_incomplete(systems: assembly.Assembled) -> None:
    import asyncio

    def pieces() -> Any:
        yield b"half"
        raise RuntimeError("an internal secret")

    app = create_site(systems, options=SiteOptions(secret=SECRET))
    app.router.routes.insert(0, _route("/half", lambda: StreamingResponse(pieces())))
    response = asyncio.run(call(app, "GET", "/half"))
    assert response.body == b"half"
    assert not response.complete


def _broken() -> None:
    raise RuntimeError("an internal secret")


def _route(path: str, endpoint: Any) -> Any:
    from fastapi.routing import APIRoute

    return APIRoute(path, endpoint, response_model=None)


def _from_mongodb() -> Unavailable:
    error = Unavailable("MongoDB took too long to answer", outcome_unknown=True)
    error.__cause__ = NetworkTimeout("timed out")
    return error


@pytest.mark.parametrize(
    ("error", "shown", "not_shown"),
    [
        (Unavailable("too many people are signing in at this moment"), "Please try again in a moment.", "database"),
        (Unavailable("too busy", outcome_unknown=True), "Please try again in a moment.", "may have been made"),
        (_from_mongodb(), "The change may have been made", "try again in a moment"),
    ],
)
def test_a_503_page_explains_the_cause(
    systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch, error: Unavailable, shown: str, not_shown: str
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(type(systems.services["commerce"]["orders"]), "get", away)
    app = create_site(systems, options=SiteOptions(secret=SECRET))
    with TestClient(app) as client:
        page = client.get("/shop/orders/x", headers={"Accept": "text/html"})
    assert (page.status_code, "retry-after" in page.headers) == (503, True)
    assert (error.message in page.text, shown in page.text, not_shown in page.text) == (True, True, False)


def test_building_the_openapi_document_does_not_block_the_event_loop(systems: assembly.Assembled) -> None:
    app = create_site(systems, options=SiteOptions(secret=SECRET))
    makers = []

    def make() -> dict[str, Any]:
        makers.append(threading.current_thread().name)
        return {"openapi": "3.1.0"}

    app.openapi = make  # type: ignore[method-assign]

    async def read() -> Any:
        return threading.current_thread().name, await call(app, "GET", "/api/openapi.json")

    loop_thread, response = asyncio.run(read())
    assert response.status == 200
    assert makers != [loop_thread]
    assert len(makers) == 1


def test_the_openapi_document_is_built_once(systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_site(systems, options=SiteOptions(secret=SECRET))
    made = []

    def slowly(**_: Any) -> dict[str, Any]:
        made.append(1)
        time.sleep(0.05)
        return {"components": {}, "paths": {}}

    monkeypatch.setattr(openapi, "get_openapi", slowly)
    at_once(4, lambda _: app.openapi())
    assert made == [1]
