"""Sends requests directly to the ASGI application, any number at once in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]


@dataclass
class Response:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool = True


async def call(
    app: Any,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    receive: Receive | None = None,
    client: str = "192.0.2.1",
) -> Response:
    """Send one request and return the response. Without `receive`, the body is empty."""
    given = {"host": "testserver", **(headers or {})}
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": (client, 1),
        "server": ("testserver", 80),
    }
    sent: list[dict[str, Any]] = []

    async def empty_body() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive or empty_body, send)
    raw = sent[0]["headers"]
    body = b"".join(message.get("body", b"") for message in sent[1:])
    complete = len(sent) > 1 and not sent[-1].get("more_body", False)
    return Response(sent[0]["status"], {name.decode(): value.decode() for name, value in raw}, body, complete)


async def never() -> dict[str, Any]:
    """Wait without end, like a client that never sends its body."""
    await asyncio.Event().wait()
    raise AssertionError


async def within(awaited: Awaitable[Response], seconds: float = 120) -> Response:
    """Return the response, or fail after `seconds` instead of hanging."""
    return await asyncio.wait_for(awaited, seconds)
