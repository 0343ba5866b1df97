"""The caller of a route. Every route asks for its caller itself, so it makes no difference who includes its router.

`ApiKeyMiddleware` of the service notes the key that it has checked, so a route behind it looks nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Scope

from squinney.errors import CredentialsRefused, NotFound, SquinneyError
from squinney.http import error_responses
from squinney.http.access.permissions import SAFE_METHODS, require_csrf, signed_in
from squinney.http.access.public_routes import is_public
from squinney.http.dependencies import header

CHECKED_KEY = "squinney_checked_key"
BEARER = "bearer "
API = "/api/"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


# ---- programs, which send an API key ----


def presented_key(scope: Scope) -> str:
    """Return the API key of a request; empty if there is none."""
    given = header(scope, b"authorization")
    return given[len(BEARER) :].strip() if given[: len(BEARER)].lower() == BEARER else ""


def set_checked_key(scope: Scope, key: Any) -> None:
    """Note a key that is valid and has the scope that the request needs."""
    scope[CHECKED_KEY] = key
    scope.setdefault("state", {})["key"] = key


def with_key(route: APIRoute, handle: Handler) -> Handler:
    """Return a handler that answers 401 without a valid API key, and 403 if the key lacks the scope of the route."""
    system = _system_of(route)

    async def handle_with_key(request: Request) -> Response:
        try:
            # guard: a route of the API asks for its key itself
            if CHECKED_KEY not in request.scope:
                level = "read" if request.method in SAFE_METHODS else "write"
                await _check_key(request, f"{system}:{level}")
            return await handle(request)
        except SquinneyError as error:
            return _answer_in_any_application(request, error)

    return handle_with_key


def _system_of(route: APIRoute) -> str:
    """Return the name of the system in whose package the route is."""
    package, has_surface, _ = route.endpoint.__module__.partition(".surface")
    return package.rpartition(".")[2] if has_surface else route.path.partition(API)[2].partition("/")[0]


async def _check_key(request: Request, needed: str) -> None:
    """Check the key with the systems of the application, if they include the one that has the keys."""
    systems = getattr(request.app.state, "assembled", None)
    keys = systems.services.get("identity", {}).get("keys") if systems else None
    presented = presented_key(request.scope)
    # guard: a route without keys to look up refuses
    if keys is None or not presented:
        raise CredentialsRefused("send an API key as `Authorization: Bearer ...`")
    set_checked_key(request.scope, await run_in_threadpool(keys.authorize, presented, needed))


def _answer_in_any_application(request: Request, error: SquinneyError) -> Response:
    """Leave the error to the application's handler, if it has one for our errors, else answer."""
    # guard, 2 lines: an application without our handlers gets our errors as responses
    if SquinneyError not in request.app.exception_handlers:
        return error_responses.respond_to_error(request, error)
    raise error


# ---- people, who have signed in ----


class PageRoute(APIRoute):
    """A page. Unless `PUBLIC_ROUTES` lists it, its visitor must have signed in; each write needs a CSRF token."""

    def get_route_handler(self) -> Handler:
        """Check the visitor before the request's form is validated."""
        handle = super().get_route_handler()
        needs_person = not is_public(self.methods or (), self.path)

        async def handle_with_visitor(request: Request) -> Response:
            try:
                if request.method not in SAFE_METHODS:
                    # guard: a page that writes asks for the token itself
                    await require_csrf(request)
                # guard: a page asks for its visitor itself
                if needs_person:
                    signed_in(request)
                # guard: an application without our templates has no pages of ours
                if not hasattr(request.app.state, "pages"):
                    raise NotFound("this application has our routes without our pages; `squinney.mount` adds both")
                return await handle(request)
            except SquinneyError as error:
                return _answer_in_any_application(request, error)

        return handle_with_visitor
