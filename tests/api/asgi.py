"""Requests to the application in one event loop, as many at once as a test likes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]


@dataclass
class Answer:
    """What came back."""

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
) -> Answer:
    """One request; without `receive` its body is empty."""
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
    told: list[dict[str, Any]] = []

    async def nothing() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    await app(scope, receive or nothing, send)
    raw = told[0]["headers"]
    body = b"".join(message.get("body", b"") for message in told[1:])
    complete = len(told) > 1 and not told[-1].get("more_body", False)
    return Answer(told[0]["status"], {name.decode(): value.decode() for name, value in raw}, body, complete)


async def never() -> dict[str, Any]:
    """A body that does not come."""
    await asyncio.Event().wait()
    raise AssertionError


async def within(awaited: Awaitable[Answer], seconds: float = 30) -> Answer:
    """The answer; a test that would hang fails instead."""
    return await asyncio.wait_for(awaited, seconds)
