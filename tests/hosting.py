"""An application of somebody else that has mounted all of Squinney under a path, with users of its own."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Route

import squinney
from squinney import ads, analytics, commerce, content, game, identity, ledger, social
from squinney.mongo.schema import Db

ROOT = "/back/office"
SECRET = "the secret of the host, long enough"
KEY = "a key of the host for the API, long enough"
ALL = [analytics, ledger, commerce, content, ads, game, social, identity]
USERS = {name: {"id": f"user-{name}", "name": name.title(), "role": name} for name in ("member", "editor", "admin")}


def authenticate(connection: HTTPConnection) -> dict[str, str] | None:
    """Find the host's user by the host's cookie, in the state of the host's application."""
    users: dict[str, dict[str, str]] = connection.app.state.users
    return users.get(connection.cookies.get("host-user", ""))


def sign_in(request: Request) -> RedirectResponse:
    """Sign in as `?name=`; the host's own page."""
    answer = RedirectResponse(request.query_params.get("next", "/"), 303)
    answer.set_cookie("host-user", request.query_params.get("name", "member"))
    return answer


def home(request: Request) -> PlainTextResponse:
    """The host's own home page."""
    return PlainTextResponse("the host")


def fastapi_host(db: Db, **options: Any) -> FastAPI:
    """Return a FastAPI application with all systems mounted."""
    app = FastAPI()
    app.add_api_route("/", home)
    app.add_api_route("/login", sign_in)
    return _mounted(app, db, **options)


def starlette_host(db: Db, **options: Any) -> Starlette:
    """Return a Starlette application with all systems mounted."""
    return _mounted(Starlette(routes=[Route("/", home), Route("/login", sign_in)]), db, **options)


def _mounted(app: Any, db: Db, **options: Any) -> Any:
    app.state.users = dict(USERS)
    given = {"authenticate": authenticate, "sign_in": "/login", "api_keys": (), "run_jobs": False, **options}
    squinney.mount(app, ROOT, given.pop("systems", ALL), db=db, secret=SECRET, **given)
    return app
