"""Rate limits, counted per process: requests by key and address, and error responses in total."""

from __future__ import annotations

import time
from asyncio import sleep
from collections import OrderedDict

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import TooManyRequests
from squinney.service.middleware.limits import EXEMPT

BURST_SECONDS = 10
MOST_NAMES = 50_000
REFUSAL_BURST_SECONDS = 0.3
LONGEST_DELAY_SECONDS = 3.0


class RateLimited(TooManyRequests):
    """Too many requests."""


class Rates:
    """A token bucket for each name, refilled at `per_second`. Only the event loop uses it, so it needs no lock."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second * BURST_SECONDS)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, name: str) -> float:
        """Take a token; return 0, or the seconds until one is available."""
        if not self._per_second:
            return 0.0
        now = time.monotonic()
        tokens, filled_at = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - filled_at) * self._per_second)
        allowed = tokens >= 1
        self._buckets[name] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > MOST_NAMES:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self._per_second


class Pace:
    """Spaces events at `per_second`, after a burst of 0.3 seconds' worth. Only the event loop uses it."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._due_at = 0.0

    def wait_seconds(self, now: float) -> float:
        """Return how long the next event must wait, at most `LONGEST_DELAY_SECONDS`."""
        if not self._per_second:
            return 0.0
        due_at = max(self._due_at, now)
        wait = due_at - REFUSAL_BURST_SECONDS - now
        if wait >= LONGEST_DELAY_SECONDS:  # further ones all wait this long, so that the delay is bounded
            return LONGEST_DELAY_SECONDS
        self._due_at = due_at + 1 / self._per_second
        return max(wait, 0.0)


class RefusalMiddleware:
    """Delays 4xx and 5xx responses to callers without an API key once there are many. Health checks are not delayed.

    Callers that retry immediately could otherwise keep the process busy with refusals: sixty of them used the whole
    interpreter, and a page took ten times as long. A delayed response occupies a connection but no thread.
    """

    def __init__(self, app: ASGIApp, *, per_second: float) -> None:
        self._app = app
        self._pace = Pace(per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(EXEMPT):
            await self._app(scope, receive, send)
            return

        async def paced(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400 and not _has_key(scope):
                await sleep(self._pace.wait_seconds(time.monotonic()))
            await send(message)

        await self._app(scope, receive, paced)


def _has_key(scope: Scope) -> bool:
    return "key" in scope.get("state", {})
