"""Checks every route: permissions, CSRF tokens, body size, rate limits, documentation and security headers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Mount, WebSocketRoute
from starlette.testclient import TestClient

from squinney import assembly
from squinney.http.access.visitor import ANONYMOUS, SIGNED_IN, Visitor
from squinney.http.routes import routes_with_paths
from squinney.http.site_options import SiteOptions
from squinney.service.site import create_site

SECRET = b"the secret of the tests, long enough"
SAFE = {"GET", "HEAD", "OPTIONS"}
OPEN = {"/healthz", "/readyz", "/metrics", "/api/docs", "/api/openapi.json"}
FOR_ADMINS = "/admin"
NOT_HERE = "/try-as"  # a 404 before anything else, except on one's own machine: test_try_as.py


@pytest.fixture
def app(systems: assembly.Assembled) -> FastAPI:
    return create_site(systems, options=SiteOptions(secret=SECRET))


@pytest.fixture
def visitor(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
        yield client


def all_routes(app: FastAPI) -> list[tuple[str, str]]:
    """Return every method and path, with `x` instead of path parameters."""
    found = []
    for path, route in routes_with_paths(app.routes):
        if isinstance(route, Mount):
            continue
        for method in sorted((getattr(route, "methods", None) or set()) - {"HEAD"}):
            found.append((method, re.sub(r"\{[^}]+\}", "x", path)))
    return found


def api(app: FastAPI) -> list[tuple[str, str]]:
    return [(method, path) for method, path in all_routes(app) if path.startswith("/api/") and path not in OPEN]


def pages(app: FastAPI) -> list[tuple[str, str]]:
    return [(method, path) for method, path in all_routes(app) if not path.startswith("/api/") and path not in OPEN]


def test_all_routes_are_found(app: FastAPI) -> None:
    assert ("POST", "/api/ledger/transfers") in api(app)
    assert ("POST", "/sign-in") in pages(app)
    assert {path for _, path in all_routes(app)} >= OPEN
    assert all(
        isinstance(route, APIRoute | Mount | WebSocketRoute) or path == "/api/openapi.json"
        for path, route in routes_with_paths(app.routes)
    )


def test_each_api_route_needs_a_key_with_its_scope(
    app: FastAPI, visitor: TestClient, systems: assembly.Assembled
) -> None:
    keys = systems.services["identity"]["keys"]
    _, other = keys.create("for another system", ["nothing:write"])
    _, reader = keys.create("reads only", ["*:read"])
    for method, path in api(app):
        refused = visitor.request(method, path)
        assert (refused.status_code, refused.json()["code"]) == (401, "key-refused"), (method, path)
        assert refused.headers["www-authenticate"].startswith("Bearer")
        denied = visitor.request(method, path, headers={"Authorization": f"Bearer {other}"})
        assert (denied.status_code, denied.json()["code"]) == (403, "forbidden"), (method, path)
        read = visitor.request(method, path, headers={"Authorization": f"Bearer {reader}"})
        assert (read.status_code == 403) == (method not in SAFE), (method, path, read.text)
        assert read.status_code < 500, (method, path, read.text)


def test_each_page_that_writes_needs_the_visitors_token(
    app: FastAPI, visitor: TestClient, systems: assembly.Assembled
) -> None:
    token = _session(systems, "admin")
    others = Visitor(SECRET, ANONYMOUS + "another-visitors-token").csrf
    for method, path in pages(app):
        if method in SAFE or path == NOT_HERE:
            continue
        for given in ({}, {"csrf": ""}, {"csrf": others}):
            visitor.cookies.set("squinney", token)
            refused = visitor.request(method, path, data=given)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), (method, path)
            assert "not sent from this site" in refused.text
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "http://["}, {"Sec-Fetch-Site": "cross-site"}):
            csrf = {"X-CSRF-Token": Visitor(SECRET, token).csrf}
            assert visitor.request(method, path, headers={**headers, **csrf}).status_code == 403, (method, path)


def _session(systems: assembly.Assembled, role: str) -> str:
    person = {"_id": role, "login": role, "name": role, "role": role}
    systems.db["identity.people"].insert_one(person)
    return SIGNED_IN + str(systems.services["identity"]["sessions"].start(person))


def test_no_page_fails_for_strangers_and_admin_pages_refuse_them(
    app: FastAPI, visitor: TestClient, systems: assembly.Assembled
) -> None:
    for method, path in pages(app):
        for accept in ("text/html", "application/json"):
            visitor.cookies.clear()
            token = ANONYMOUS + "a-visitors-token"
            visitor.cookies.set("squinney", token)
            csrf = {"X-CSRF-Token": Visitor(SECRET, token).csrf}
            response = visitor.request(method, path, headers={"Accept": accept, **csrf})
            assert response.status_code < 500, (method, path, response.text)
            if path.startswith(FOR_ADMINS):
                _is_refused(response, accept)
    token = _session(systems, "editor")
    for method, path in pages(app):
        if path.startswith(FOR_ADMINS):
            visitor.cookies.set("squinney", token)
            csrf = {"X-CSRF-Token": Visitor(SECRET, token).csrf}
            assert visitor.request(method, path, headers=csrf).status_code == 403, (method, path)


def _is_refused(response: object, accept: str) -> None:
    assert response.status_code == (303 if accept == "text/html" else 403)  # type: ignore[attr-defined]
    if accept == "text/html":
        assert response.headers["location"].startswith("/sign-in?next=/")  # type: ignore[attr-defined]


def test_each_route_refuses_a_body_that_is_too_large(
    app: FastAPI, visitor: TestClient, systems: assembly.Assembled
) -> None:
    _, key = systems.services["identity"]["keys"].create("everything", ["*:write"])
    visitor.headers["Authorization"] = f"Bearer {key}"
    small = create_site(systems, options=SiteOptions(secret=SECRET, body_limits={"/": 1_000}))
    allowed = _body_limits()
    with TestClient(small, raise_server_exceptions=False, headers=visitor.headers) as client:
        for method, path in all_routes(app):
            if method in SAFE or path.startswith(allowed):
                continue
            refused = client.request(method, path, content=b"x" * 1_001)
            assert refused.status_code == 413, (method, path, refused.text)


def _body_limits() -> tuple[str, ...]:
    """Return the paths with limits of their own, which other tests check."""
    from squinney.service.site import surfaces

    found = [*surfaces(assembly.SYSTEMS, "api"), *surfaces(assembly.SYSTEMS, "web")]
    return tuple(prefix for _, module in found for prefix in getattr(module, "BODY_LIMITS", {}))


def test_each_route_counts_against_a_rate(systems: assembly.Assembled) -> None:
    limited = create_site(systems, options=SiteOptions(secret=SECRET, rate_per_key=1e-9, rate_per_address=1e-9))
    _, key = systems.services["identity"]["keys"].create("everything", ["*:write"])
    with TestClient(limited, raise_server_exceptions=False) as client:
        assert client.get("/").status_code == 200
        assert client.get("/api/identity/key", headers={"Authorization": f"Bearer {key}"}).status_code == 200
        for method, path in all_routes(limited):
            response = client.request(method, path, headers={"Authorization": f"Bearer {key}"})
            if path in OPEN - {"/api/docs", "/api/openapi.json"}:
                assert response.status_code == 200, path
            else:
                assert response.status_code == 429, (method, path)
                assert int(response.headers["retry-after"]) >= 1


def test_each_route_is_documented_with_its_errors(app: FastAPI) -> None:
    document = app.openapi()
    documented = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    routes = {(method, path) for method, path in all_routes(app) if path.startswith("/api/") and path not in OPEN}
    assert {(method, re.sub(r"\{[^}]+\}", "x", path)) for method, path in documented} >= routes
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["summary"], path
            if path.startswith("/api/"):
                wanted = {"401", "403", "422", "429", "503"} | ({"413"} if "requestBody" in operation else set())
                assert wanted <= operation["responses"].keys(), (method, path)
                assert operation["security"], path
                for status, response in operation["responses"].items():
                    if status >= "400":
                        assert "application/problem+json" in response["content"], (path, status)
            names = {parameter["name"] for parameter in operation.get("parameters", [])}
            if "cursor" in names and path.startswith("/api/"):
                assert _signs_cursors(app, method, path), f"{path} must take its cursor as api.cursors.Cursor"


def _signs_cursors(app: FastAPI, method: str, path: str) -> bool:
    from squinney.http.cursors import signed_cursor

    route = next(
        r
        for at, r in routes_with_paths(app.routes)
        if isinstance(r, APIRoute) and at == path and method.upper() in r.methods
    )
    return any(dependency.call is signed_cursor for dependency in route.dependant.dependencies)


def test_each_response_has_the_security_headers(app: FastAPI, visitor: TestClient) -> None:
    for method, path in all_routes(app):
        response = visitor.request(method, path, headers={"Accept": "text/html"})
        assert response.status_code < 500, (method, path, response.text)
        headers = response.headers
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-request-id"]
