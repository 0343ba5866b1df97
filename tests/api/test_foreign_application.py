"""Our routers in an application of somebody else, without our middleware: each route asks for its caller itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from starlette.routing import WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

import squinney.service
from squinney import assembly
from squinney.http.access.public_routes import PUBLIC_ROUTES
from squinney.http.routes import OneThreadRoute, paths_of, routes_with_paths
from squinney.service.middleware.api_keys import first_segment
from squinney.service.site import surfaces

SAFE = {"GET", "HEAD", "OPTIONS"}
DOCS = Path(__file__).parents[2] / "docs" / "service.md"


def routers() -> list[APIRouter]:
    """Return the routers of every system, and all that modules of the service define."""
    of_systems = [module.router for part in ("api", "web") for _, module in surfaces(assembly.SYSTEMS, part)]
    modules = [import_module(found.name) for found in walk_packages(squinney.service.__path__, "squinney.service.")]
    of_service = [value for module in modules for value in vars(module).values() if isinstance(value, APIRouter)]
    return [*of_systems, *of_service]


def bare_application(systems: assembly.Assembled, prefix: str = "") -> FastAPI:
    app = FastAPI()
    app.state.assembled = systems
    for router in routers():
        app.include_router(router, prefix=prefix)
    return app


@pytest.fixture
def bare(systems: assembly.Assembled) -> FastAPI:
    return bare_application(systems)


@pytest.fixture
def anyone(bare: FastAPI) -> Iterator[TestClient]:
    with TestClient(bare, follow_redirects=False) as found:
        yield found


def all_routes(app: FastAPI) -> list[tuple[str, str, Any]]:
    """Return every method, path and route of the routers."""
    found = []
    for path, route in routes_with_paths(app.routes):
        if path in ("/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"):  # the application's own
            continue
        methods = getattr(route, "methods", None) or {"WEBSOCKET" if isinstance(route, WebSocketRoute) else "ANY"}
        found += [(method, path, route) for method in sorted(methods - {"HEAD"})]
    return found


def filled(path: str) -> str:
    return re.sub(r"\{[^}]+\}", "x", path)


def listed(method: str, path: str) -> bool:
    """Compare without the convertors of parameters, which the route's formatted path lacks."""
    return f"{method} {path}" in {re.sub(r":\w+\}", "}", entry) for entry in PUBLIC_ROUTES}


def test_each_route_asks_for_its_caller(bare: FastAPI, anyone: TestClient) -> None:
    refused = 0
    for method, path, _ in all_routes(bare):
        if listed(method, path):
            continue
        refused += 1
        if method == "WEBSOCKET":
            with pytest.raises(WebSocketDisconnect), anyone.websocket_connect(filled(path)):
                pass
            continue
        for headers in ({}, {"Authorization": "Bearer sqy_x_y"}, {"Authorization": "Basic eDp5"}):
            response = anyone.request(method, filled(path), headers=headers)
            wanted = {401} if path.startswith("/api/") else {303, 401, 403}
            assert response.status_code in wanted, (method, path, response.status_code, response.text)
    assert refused > 200


def test_a_public_page_that_writes_needs_the_visitors_token(bare: FastAPI, anyone: TestClient) -> None:
    writes = [(method, path) for method, path, _ in all_routes(bare) if method not in SAFE and listed(method, path)]
    assert ("POST", "/shop/cart/items") in writes
    for method, path in writes:
        if path == "/try-as":  # it does not exist here
            continue
        assert anyone.request(method, path, data={"csrf": "guessed"}).status_code == 403, (method, path)


def test_a_prefix_of_the_application_opens_nothing(systems: assembly.Assembled) -> None:
    app = bare_application(systems, "/back")
    with TestClient(app, follow_redirects=False) as client:
        assert client.get("/back/api/ledger/accounts").status_code == 401
        assert client.post("/back/social/join").status_code == 403
        assert client.get("/back/admin/keys").status_code == 403
        assert client.get("/back/healthz").status_code == 200


def test_an_api_key_with_the_scope_opens_the_route(systems: assembly.Assembled, anyone: TestClient) -> None:
    keys = systems.services["identity"]["keys"]
    reader = {"Authorization": f"Bearer {keys.create('reads', ['ledger:read', 'content:read'])[1]}"}
    assert anyone.get("/api/ledger/accounts", headers=reader).status_code == 200
    assert anyone.get("/api/comments/queue", headers=reader).status_code == 200  # a second prefix of content
    denied = anyone.post("/api/ledger/accounts", headers=reader, json={})
    assert (denied.status_code, denied.json()["code"]) == (403, "forbidden")
    assert anyone.get("/api/commerce/products", headers=reader).status_code == 403


def test_without_systems_or_without_keys_nothing_answers(systems: assembly.Assembled) -> None:
    _, key = systems.services["identity"]["keys"].create("everything", ["*:write"])
    others = [system for system in assembly.SYSTEMS if system.name != "identity"]
    for state in (None, assembly.assemble(systems.db, systems=others)):
        app = bare_application(systems)
        app.state.assembled = state
        with TestClient(app) as client:
            refused = client.get("/api/ledger/accounts", headers={"Authorization": f"Bearer {key}"})
            assert refused.status_code == 401


def test_a_state_of_the_application_is_not_taken_for_a_caller(systems: assembly.Assembled) -> None:
    app = bare_application(systems)

    @app.middleware("http")
    async def set_own_state(request: Any, call_next: Any) -> Any:
        request.state.key = {"_id": "not ours", "scopes": ["*:write"]}
        return await call_next(request)

    with TestClient(app) as client:
        assert client.get("/api/ledger/accounts").status_code == 401


def test_the_scope_of_a_route_is_that_of_its_path(bare: FastAPI) -> None:
    """The middleware takes the system from the path, a route from its package: both must name the same."""
    from squinney.http.access.callers import _system_of

    by_path = {
        first_segment(path): system.name
        for system, module in surfaces(assembly.SYSTEMS, "api")
        for path in paths_of(module.router)
    }
    routes = [(path, route) for _, path, route in all_routes(bare) if isinstance(route, OneThreadRoute)]
    assert len(routes) > 150
    for path, route in routes:
        assert _system_of(route) == by_path[first_segment(path)], path


def test_the_middleware_spares_the_route_a_second_look_up(site: TestClient, systems: assembly.Assembled) -> None:
    keys = systems.services["identity"]["keys"]
    looked_up = []
    keys.authorize = lambda *given: looked_up.append(given)
    assert site.get("/api/ledger/accounts").status_code == 200
    assert looked_up == []


def test_each_public_route_exists_and_is_in_the_docs(bare: FastAPI, stranger: TestClient) -> None:
    exist = {f"{method} {path}" for method, path, _ in all_routes(bare)} | {"GET /api/openapi.json"}
    assert {re.sub(r":\w+\}", "}", entry) for entry in PUBLIC_ROUTES} - exist == set()
    shown = re.findall(r"^\| `([A-Z]+ /[^`]*)` \| (.*) \|$", DOCS.read_text(), re.MULTILINE)
    assert dict(shown) == PUBLIC_ROUTES


def test_what_is_public_there_says_why_it_has_no_page(bare: FastAPI, anyone: TestClient) -> None:
    """Our pages need templates, a menu and more, which only our own application has."""
    answered = {
        (path, anyone.request(method, filled(path)).status_code)
        for method, path, _ in all_routes(bare)
        if method in SAFE and listed(method, path)
    }
    assert len(answered) > 40
    assert {path for path, status in answered if status != 404} == {"/healthz", "/readyz"}
    refused = anyone.get("/api/docs").json()
    assert (refused["code"], "squinney.mount" in refused["detail"]) == ("not-found", True)


def test_our_errors_are_responses_there(systems: assembly.Assembled, anyone: TestClient) -> None:
    _, key = systems.services["identity"]["keys"].create("everything", ["*:write"])
    response = anyone.get("/api/ledger/accounts/nobody", headers={"Authorization": f"Bearer {key}"})
    assert (response.status_code, response.json()["code"]) == (404, "unknown-account")
