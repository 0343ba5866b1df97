"""Checks API keys, scopes and rates for all paths, before anything else runs. Routes check that this has happened.

A path `/api/<system>/...` requires a key with the scope `<system>:read`, or `<system>:write` for methods that write. A
system may have further prefixes, such as `/api/comments` of content.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from squinney.errors import SquinneyError
from squinney.http import error_responses
from squinney.http.access.callers import API, presented_key, set_checked_key
from squinney.http.access.permissions import SAFE_METHODS
from squinney.http.access.visitor import signature_of
from squinney.http.dependencies import client_address
from squinney.http.site_options import SiteOptions
from squinney.identity import ApiKey, KeyRefused, Keys
from squinney.identity.rules import require_scope
from squinney.mongo.schema import Db
from squinney.service.fixed_keys import FixedKeys
from squinney.service.middleware.rates import BURST_SECONDS, Pace, RateLimited, SharedPace

OPEN = {"/api/docs", "/api/openapi.json"}
UNCOUNTED = {"/healthz", "/readyz", "/metrics"}


class ApiKeyMiddleware:
    """Refuses a request without a valid key, without the required scope, or beyond the rate limit."""

    def __init__(
        self, app: ASGIApp, *, db: Db, keys: Keys | FixedKeys, scopes: Mapping[str, str], options: SiteOptions
    ) -> None:
        self._app = app
        self._scopes = scopes
        self._keys = keys
        name_of = partial(signature_of, options.secret, "rate")  # nobody's address is stored
        self._by_key = SharedPace(db, options.rate_per_key, burst_seconds=BURST_SECONDS, name_of=name_of)
        self._by_address = SharedPace(db, options.rate_per_address, burst_seconds=BURST_SECONDS, name_of=name_of)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        if not path.startswith(API) or path in OPEN:
            self._count(self._by_address, client_address(scope))
            return
        try:
            presented = presented_key(scope)
            if not presented:
                raise KeyRefused("send an API key as `Authorization: Bearer ...`")
            known = self._keys.find_cached(presented)
            key: ApiKey = known if known is not None else await run_in_threadpool(self._keys.find, presented)
        except KeyRefused:
            self._count(self._by_address, client_address(scope))
            raise
        self._count(self._by_key, key["_id"])
        scope.setdefault("state", {})["key"] = key
        require_scope(key, scope_for(scope.get("method", "POST"), path, self._scopes))
        set_checked_key(scope, key)

    def _count(self, pace: Pace, name: str) -> None:
        if wait := pace.wait_seconds(time.monotonic(), name):
            raise RateLimited("too many requests; try again later", retry_after_seconds=math.ceil(wait))


def scope_for(method: str, path: str, scopes: Mapping[str, str]) -> str:
    """Return the scope that a request requires; `scopes` maps the first segment after `/api/` to a system."""
    first = first_segment(path)
    return f"{scopes.get(first, first)}:{'read' if method in SAFE_METHODS else 'write'}"


def first_segment(path: str) -> str:
    """Return the first segment of a path after `/api/`."""
    return path.removeprefix(API).partition("/")[0]


async def _refuse(scope: Scope, receive: Receive, send: Send, error: SquinneyError) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": error.code})
        return
    await error_responses.respond_in_middleware(scope, error)(scope, receive, send)
