"""Requests that are refused: injections, wrong keys, forged cursors, odd headers and bodies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from squinney import assembly
from squinney.clock import utcnow
from squinney.http.site_options import SiteOptions
from squinney.service.site import create_site

SECRET = b"the secret of the tests, long enough"
INJECTIONS: list[Any] = [{"$gt": ""}, {"$ne": None}, ["$where"], {"$regex": ".*"}, {"$expr": {"$eq": [1, 1]}}]


def key_for(systems: assembly.Assembled, *scopes: str, **options: Any) -> dict[str, str]:
    _, key = systems.services["identity"]["keys"].create("test", scopes or ["*:write"], **options)
    return {"Authorization": f"Bearer {key}"}


def opened(site: TestClient) -> str:
    return str(site.post("/api/ledger/accounts", json={"currency": "EUR", "opening": 100}).json()["id"])


# ---- operators where strings are expected ----


def string_fields(app: FastAPI) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield method, path, field and body schema for every string field in every documented body."""
    document = app.openapi()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            schema = document["components"]["schemas"].get(name, {})
            for field, shape in schema.get("properties", {}).items():
                if shape.get("type") == "string":
                    yield method, path, field, schema


def test_operators_are_refused_at_every_string(site: TestClient) -> None:
    tried = 0
    for method, path, field, schema in string_fields(site.app):  # type: ignore[arg-type]
        body = {name: shape.get("examples", ["x"])[0] for name, shape in schema["properties"].items()}
        for injection in INJECTIONS:
            response = site.request(method, path.replace("{", "").replace("}", ""), json={**body, field: injection})
            assert response.status_code == 422, (method, path, field, response.text)
            assert field in response.text
            tried += 1
    assert tried >= 5 * len(INJECTIONS)


@pytest.mark.parametrize("query", ["cursor[$gt]=", "cursor=%00", "cursor=x", "limit=0", "limit=201", "limit[$ne]=1x"])
def test_operators_in_queries_are_just_strings(site: TestClient, query: str) -> None:
    assert site.get(f"/api/ledger/accounts?{query}").status_code in (200, 422)


@pytest.mark.parametrize(
    "account", ["%7B%22$gt%22:%22%22%7D", "%00", "..%2f..%2fetc", "$where", "%F0%9F%90%BF", "a" * 201, "%0d%0aX: y"]
)
def test_odd_paths_find_nothing(site: TestClient, account: str) -> None:
    response = site.get(f"/api/ledger/accounts/{account}")
    assert response.status_code in (404, 422)
    assert "x" not in response.headers


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'{"currency": "EUR", "currency2": 1}',
        b'{"currency": "EUR", "\\ud800": 1}',
        b'{"currency": "EUR", "name": "\\ud800"}',
        b'{"currency": "EUR", "name": "\\u0000"}',
        b'{"currency": "EUR", "opening": 1e400}',
        b'{"currency": "EUR", "opening": ' + b"9" * 5_000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe",
    ],
    ids=lambda body: repr(body[:30]),
)
def test_odd_bodies_are_refused_as_problems(site: TestClient, body: bytes) -> None:
    response = site.post("/api/ledger/accounts", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422), response.text
    assert response.headers["content-type"] == "application/problem+json"


# ---- keys ----


def test_expired_revoked_and_wrong_keys_get_the_same_response(
    stranger: TestClient, systems: assembly.Assembled, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "squinney")
    keys = systems.services["identity"]["keys"]
    good, shown = keys.create("good", ["ledger:read"])
    revoked, gone = keys.create("gone", ["ledger:read"])
    keys.revoke(revoked["_id"])
    soon = utcnow() + timedelta(milliseconds=1)
    expired, old = keys.create("old", ["ledger:read"], expires_at=soon + timedelta(seconds=1))
    systems.db["identity.keys"].update_one({"_id": expired["_id"]}, {"$set": {"expires_at": utcnow()}})
    texts = set()
    for key in (gone, old, shown[:-1] + "x", "nonsense", f"sqy_{good['_id']}_"):
        response = stranger.get("/api/ledger/accounts", headers={"Authorization": f"Bearer {key}"})
        assert response.status_code == 401
        texts.add(response.text)
    assert len(texts) == 1
    assert stranger.get("/api/ledger/accounts", headers={"Authorization": f"Bearer {shown}"}).status_code == 200
    assert stranger.get("/api/ledger/accounts", headers={"Authorization": f"Basic {shown}"}).status_code == 401
    assert stranger.get(f"/api/ledger/accounts?key={shown}").status_code == 401
    secrets = [key.split("_", 2)[2] for key in (shown, gone, old)]
    assert not [secret for secret in secrets if secret in caplog.text]


def test_a_session_does_not_replace_a_key(site: TestClient) -> None:
    del site.headers["Authorization"]
    assert site.get("/api/ledger/accounts").status_code == 401


def test_idempotency_keys_are_separate_per_caller(stranger: TestClient, systems: assembly.Assembled) -> None:
    body = {"currency": "EUR", "name": "same"}
    ids = [
        stranger.post("/api/ledger/accounts", json=body, headers={**key, "Idempotency-Key": "k"}).json()["id"]
        for key in (key_for(systems), key_for(systems))
    ]
    assert ids[0] != ids[1]


# ---- cursors ----


def test_a_cursor_is_valid_for_its_own_list_and_caller_only(site: TestClient, systems: assembly.Assembled) -> None:
    accounts = [opened(site) for _ in range(3)]
    page = site.get("/api/ledger/accounts?limit=2").json()
    cursor = page["next"]
    rest = site.get("/api/ledger/accounts", params={"limit": 2, "cursor": cursor}).json()
    assert [item["id"] for item in [*page["items"], *rest["items"]]] == accounts
    plain = systems.services["ledger"]["accounts"].all(limit=2).next
    statement = f"/api/ledger/accounts/{accounts[0]}/statement"
    forged = [plain, cursor[:-2] + "zz", "zz" + cursor[2:], cursor[22:], cursor[:22], "é" * 30]
    for stolen in forged:
        assert _refused(site.get("/api/ledger/accounts", params={"cursor": stolen})), stolen
    assert _refused(site.get(statement, params={"cursor": cursor})), "the cursor of another list"
    other = site.get("/api/ledger/accounts", params={"cursor": cursor}, headers=key_for(systems))
    assert _refused(other), "the cursor of another caller"


def _refused(response: Any) -> bool:
    return (response.status_code, response.json()["detail"]) == (422, "cursor is not a cursor of this list")


# ---- headers ----


def test_a_callers_request_id_is_kept_if_it_is_harmless(stranger: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    assert stranger.get("/healthz", headers={"X-Request-ID": "abc-1"}).headers["x-request-id"] == "abc-1"
    for harmful in ("a b", "x" * 65, "<script>", 'a"b', "a;b", "a\tb"):
        given = stranger.get("/healthz", headers={"X-Request-ID": harmful}).headers["x-request-id"]
        assert given != harmful
        assert len(given) == 26


def test_a_path_cannot_inject_log_lines(stranger: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "squinney.requests")
    stranger.get("/nothing%0aforged%1b[31m?token=hidden")
    lines = [record.getMessage() for record in caplog.records if record.name == "squinney.requests"]
    assert any("forged" in line for line in lines)
    assert not any(set("\n\r\x1b") & set(line) for line in lines)
    assert "hidden" not in caplog.text


def test_a_refused_path_cannot_control_the_terminal(
    systems: assembly.Assembled, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_site(systems, options=SiteOptions(secret=SECRET, max_waiting=0))
    with TestClient(app) as client:
        assert client.get("/forged%1b[31m").status_code == 503
    lines = [record.getMessage() for record in caplog.records]
    assert any("forged" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


# ---- bodies ----


def test_a_body_of_unknown_length_is_cut_off(site: TestClient) -> None:
    sent = []

    def endless() -> Iterator[bytes]:
        for _ in range(64):
            sent.append(1)
            yield b" " * 65_536

    response = site.post("/api/ledger/accounts", content=endless(), headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["code"]) == (413, "http-413")


def test_a_response_lists_at_most_100_wrong_fields(site: TestClient) -> None:
    response = site.post("/api/ledger/accounts", json={f"field {number}": 1 for number in range(20_000)})
    assert response.status_code == 422
    assert len(response.json()["details"]["fields"]) == 100


def test_a_slow_body_is_cut_off(systems: assembly.Assembled) -> None:
    app = create_site(systems, options=SiteOptions(secret=SECRET, body_seconds=0.2))
    key = key_for(systems)["Authorization"].encode()
    headers = [(b"host", b"testserver"), (b"authorization", key), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/ledger/accounts",
        "raw_path": b"/api/ledger/accounts",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("192.0.2.1", 1),
        "server": ("testserver", 80),
    }
    started: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message: Any) -> None:
        started.append(message)

    asyncio.run(asyncio.wait_for(app(scope, receive, send), 30))
    assert started[0]["status"] == 408


def test_requests_beyond_the_waiting_limit_are_refused_at_once(systems: assembly.Assembled) -> None:
    app = create_site(systems, options=SiteOptions(secret=SECRET, max_waiting=0))
    with TestClient(app) as client:
        response = client.get("/api/ledger/accounts", headers=key_for(systems))
        assert (response.status_code, response.json()["detail"]) == (503, "too many requests are waiting")
        assert response.headers["retry-after"]
        assert client.get("/healthz").status_code == 200


def test_an_internal_error_reveals_nothing(systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("an internal secret")

    monkeypatch.setattr(type(systems.services["ledger"]["accounts"]), "all", broken)
    app = create_site(systems, options=SiteOptions(secret=SECRET))
    with TestClient(app, raise_server_exceptions=False) as client:
        response = client.get("/api/ledger/accounts", headers=key_for(systems))
        assert (response.status_code, response.json()["code"]) == (500, "internal")
        assert "an internal secret" not in response.text
        assert "content-security-policy" in response.headers


# ---- health and metrics ----


def test_health_readiness_and_metrics(site: TestClient) -> None:
    opened(site)
    assert site.get("/healthz").json() == {"status": "ok"}
    ready = site.get("/readyz").json()
    assert ready["status"] == "ready"
    assert ready["jobs"].keys() == {job.name for job in assembly.jobs()}
    metrics = site.get("/metrics").text
    assert 'squinney_requests_total{method="POST",route="/api/ledger/accounts",status="201"} 1.0' in metrics
    assert 'squinney_operations_total{outcome="ok",system="ledger"} 1.0' in metrics
    assert "squinney_mongodb_up 1.0" in metrics
    assert "squinney_job_late_seconds{" in metrics
    assert 'squinney_mongodb_connections{state="idle"}' in metrics


def test_a_caller_can_read_their_key(site: TestClient) -> None:
    shown = site.get("/api/identity/key").json()
    assert shown["scopes"] == ["*:write"]
    assert "digest" not in shown
