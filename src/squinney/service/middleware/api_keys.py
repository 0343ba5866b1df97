"""Who may come in: API keys, scopes and rates, for every path at once, so that no route can forget them.

A path `/api/<system>/...` needs a key whose scopes include `<system>:read`, or `<system>:write` for what is not a read.
A system may have further paths, as content has `/api/comments`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from squinney.errors import Forbidden, SquinneyError
from squinney.http import problems
from squinney.http.dependencies import address_of, header
from squinney.http.options import Options
from squinney.identity import ApiKey, KeyRefused, Keys, allows
from squinney.service.middleware.rates import RateLimited, Rates

PREFIX = "/api/"
OPEN = {"/api/docs", "/api/openapi.json"}
UNCOUNTED = {"/healthz", "/readyz", "/metrics"}
READS = {"GET", "HEAD", "OPTIONS"}
BEARER = "bearer "


class ApiKeyMiddleware:
    """Lets a request through, or answers it with a problem."""

    def __init__(self, app: ASGIApp, *, keys: Keys, scopes: Mapping[str, str], options: Options) -> None:
        self._app = app
        self._scopes = scopes
        self._keys = keys
        self._by_key = Rates(options.rate_per_key)
        self._by_address = Rates(options.rate_per_address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or socket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            await self._check(scope)
        except SquinneyError as error:
            await _refuse(scope, receive, send, error)
            return
        await self._app(scope, receive, send)

    async def _check(self, scope: Scope) -> None:
        path = scope["path"]
        if path in UNCOUNTED:
            return
        if not path.startswith(PREFIX) or path in OPEN:
            self._count(self._by_address, address_of(scope))
            return
        try:
            presented = _presented(header(scope, b"authorization"))
            known = self._keys.remembered(presented)
            key: ApiKey = known if known is not None else await run_in_threadpool(self._keys.find, presented)
        except KeyRefused:
            self._count(self._by_address, address_of(scope))
            raise
        self._count(self._by_key, key["_id"])
        scope.setdefault("state", {})["key"] = key
        needed = scope_for(scope.get("method", "POST"), path, self._scopes)
        if not allows(key["scopes"], needed):
            raise Forbidden(f"this API key lacks the scope {needed}", scope=needed)

    def _count(self, rates: Rates, name: str) -> None:
        if wait := rates.wait_seconds(name):
            raise RateLimited("too many requests; slow down", retry_after_seconds=math.ceil(wait))


def _presented(header: str) -> str:
    if header[: len(BEARER)].lower() != BEARER:
        raise KeyRefused("send an API key as `Authorization: Bearer ...`")
    return header[len(BEARER) :].strip()


def scope_for(method: str, path: str, scopes: Mapping[str, str]) -> str:
    """The scope that a request needs; `scopes` has the system of each first part of a path."""
    first = first_part(path)
    return f"{scopes.get(first, first)}:{'read' if method in READS else 'write'}"


def first_part(path: str) -> str:
    """What comes behind `/api/`."""
    return path.removeprefix(PREFIX).partition("/")[0]


async def _refuse(scope: Scope, receive: Receive, send: Send, error: SquinneyError) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": error.code})
        return
    await problems.answer(scope, error)(scope, receive, send)
