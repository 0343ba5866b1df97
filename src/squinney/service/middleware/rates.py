"""Rate limits, counted per process: requests by key and address, and error responses in total."""

from __future__ import annotations

import time
from asyncio import sleep

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import TooManyRequests
from squinney.patterns.bounded import Bounded
from squinney.service.middleware.limits import EXEMPT

BURST_SECONDS = 10
MAX_NAMES = 50_000
REFUSAL_BURST_SECONDS = 0.3
MAX_DELAY_SECONDS = 3.0


class RateLimited(TooManyRequests):
    """Too many requests."""


class Pace:
    """Spaces the events of each name at `per_second`, after a burst of `burst_seconds`' worth; 0 means no limit.

    Only the event loop uses it, so it needs no lock.
    """

    def __init__(self, per_second: float, *, burst_seconds: float, max_wait_seconds: float = 0.0) -> None:
        self._per_second = per_second
        self._burst_seconds = burst_seconds
        self._max_wait_seconds = max_wait_seconds
        self._due_at = Bounded[str, float](MAX_NAMES)  # the next event, if there was no burst

    def wait_seconds(self, now: float, name: str = "") -> float:
        """Return how long an event must wait. One that would have to wait longer than the longest is not counted."""
        if not self._per_second:
            return 0.0
        due_at = max(self._due_at.get(name, now), now)
        wait = max(due_at - self._burst_seconds - now, 0.0)
        self._due_at[name] = due_at + 1 / self._per_second if wait <= self._max_wait_seconds else due_at
        return wait


class RefusalMiddleware:
    """Delays 4xx and 5xx responses to callers without an API key once there are many. Health checks are not delayed.

    Callers that retry immediately could otherwise keep the process busy with refusals: sixty of them used the whole
    interpreter, and a page took ten times as long. A delayed response occupies a connection but no thread.
    """

    def __init__(self, app: ASGIApp, *, per_second: float) -> None:
        self._app = app
        self._pace = Pace(per_second, burst_seconds=REFUSAL_BURST_SECONDS, max_wait_seconds=MAX_DELAY_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(EXEMPT):
            await self._app(scope, receive, send)
            return

        async def paced(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400 and not _has_key(scope):
                await sleep(min(self._pace.wait_seconds(time.monotonic()), MAX_DELAY_SECONDS))
            await send(message)

        await self._app(scope, receive, paced)


def _has_key(scope: Scope) -> bool:
    return "key" in scope.get("state", {})
