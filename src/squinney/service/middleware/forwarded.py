"""Reads the caller's address, scheme and host from the headers of trusted proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from squinney.http.dependencies import client_address, header


class ForwardedMiddleware:
    """Applies `X-Forwarded-For`, `-Proto` and `-Host` of trusted proxies; ignores those of other callers."""

    def __init__(self, app: ASGIApp, *, trusted: Sequence[str]) -> None:
        for network in trusted:
            ipaddress.ip_network(network)  # uvicorn would ignore a malformed entry, and trust everyone for *
        inner: Any = app
        self._app: Any = ProxyHeadersMiddleware(inner, list(trusted))  # address and scheme

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and client_address(scope) in self._app.trusted_hosts:
            scope = _with_host(scope)
        await self._app(scope, receive, send)


def _with_host(scope: Scope) -> Scope:
    given = header(scope, b"x-forwarded-host").partition(",")[0].strip()
    if not given:
        return scope
    others = [pair for pair in scope["headers"] if pair[0] != b"host"]
    return {**scope, "headers": [*others, (b"host", given.encode("latin-1"))]}
