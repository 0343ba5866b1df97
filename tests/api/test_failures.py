"""A fault of ours is logged, counted and answered with one id."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest
from starlette.responses import StreamingResponse
from starlette.testclient import TestClient
from tests.api.asgi import call

from squinney import assembly
from squinney.http.options import Options
from squinney.service import logs
from squinney.service.site import create_site

SECRET = b"the secret of the tests, long enough"


@pytest.fixture
def app(systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch) -> Any:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a secret of the house")

    monkeypatch.setattr(type(systems.services["ledger"]["accounts"]), "all", broken)
    return create_site(systems, options=Options(secret=SECRET))


def key_of(systems: assembly.Assembled) -> dict[str, str]:
    _, key = systems.services["identity"]["keys"].create("test", ["*:read"])
    return {"Authorization": f"Bearer {key}"}


def as_json(records: list[logging.LogRecord]) -> list[dict[str, Any]]:
    """The lines as the log has them for machines."""
    return [json.loads(logs.Json().format(record)) for record in records]


def test_a_fault_is_one_line_one_count_and_one_id(app: Any, systems: assembly.Assembled) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logs.Json())
    root = logging.getLogger()
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.INFO)
    try:
        with TestClient(app) as client:
            answer = client.get("/api/ledger/accounts", headers=key_of(systems))
            metrics = client.get("/metrics").text
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    identifier = answer.headers["x-request-id"]
    assert answer.status_code == 500
    assert answer.json()["details"] == {"request_id": identifier}
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    ours = [line for line in lines if line.get("request_id") == identifier]
    failures = [line for line in ours if line["level"] == "error"]
    assert len(failures) == 1
    assert failures[0]["path"] == "/api/ledger/accounts"
    assert "a secret of the house" in failures[0]["exception"]
    assert [line["status"] for line in ours if line["logger"] == "squinney.requests"] == [500]
    assert 'squinney_operations_total{outcome="failed",system="ledger"} 1.0' in metrics
    assert 'squinney_requests_total{method="GET",route="/api/ledger/accounts",status="500"} 1.0' in metrics


def test_a_page_that_fails_shows_the_id_and_nothing_else(systems: assembly.Assembled) -> None:
    app = create_site(systems, options=Options(secret=SECRET))
    app.router.routes.insert(0, _route("/broken", _broken))
    with TestClient(app) as client:
        page = client.get("/broken", headers={"Accept": "text/html"})
    assert page.status_code == 500
    assert page.headers["x-request-id"] in page.text
    assert "a secret of the house" not in page.text
    assert "content-security-policy" in page.headers


def test_a_failure_in_the_middle_of_an_answer_does_not_end_it_as_if_it_were_whole(systems: assembly.Assembled) -> None:
    import asyncio

    def pieces() -> Any:
        yield b"half"
        raise RuntimeError("a secret of the house")

    app = create_site(systems, options=Options(secret=SECRET))
    app.router.routes.insert(0, _route("/half", lambda: StreamingResponse(pieces())))
    answer = asyncio.run(call(app, "GET", "/half"))
    assert answer.body == b"half"
    assert not answer.complete


def _broken() -> None:
    raise RuntimeError("a secret of the house")


def _route(path: str, endpoint: Any) -> Any:
    from fastapi.routing import APIRoute

    return APIRoute(path, endpoint, response_model=None)
