"""Rate limits: requests by key and address, counted by all processes together, and error responses of each process."""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import sleep
from collections import Counter
from collections.abc import Callable

from pymongo.errors import PyMongoError
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import SquinneyError, TooManyRequests
from squinney.mongo.schema import Db
from squinney.patterns.bounded import Bounded
from squinney.service.middleware.limits import EXEMPT
from squinney.shared_rates import share

log = logging.getLogger(__name__)

BURST_SECONDS = 10
SHARED_EVERY_SECONDS = 1.0
SHARED_FROM = 1 / 16  # of the rate; who sends less to a process is not worth a write
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


class SharedPace(Pace):
    """A pace that all processes of the site keep together: each decides by itself, and tells the others once a second.

    Over any time they let pass what the rate allows, and at once a burst of each. `name_of` makes the name that is
    stored, which should not be an address.
    """

    def __init__(self, db: Db, per_second: float, *, burst_seconds: float, name_of: Callable[[str], str]) -> None:
        super().__init__(per_second, burst_seconds=burst_seconds)
        self._db = db
        self._name_of = name_of
        self._passed: Counter[str] = Counter()
        self._shared_at = time.monotonic()
        self._sharing: asyncio.Task[None] | None = None

    def wait_seconds(self, now: float, name: str = "") -> float:
        """Return how long an event must wait, by what this process knows of all."""
        wait = super().wait_seconds(now, name)
        if self._per_second:
            self._passed[name] += not wait
            if now - self._shared_at >= SHARED_EVERY_SECONDS and (self._sharing is None or self._sharing.done()):
                self._sharing = asyncio.get_running_loop().create_task(self._share(now))
        return wait

    async def _share(self, now: float) -> None:
        least = self._per_second * (now - self._shared_at) * SHARED_FROM
        seconds = {name: count / self._per_second for name, count in self._passed.items() if count and count >= least}
        self._passed.clear()
        self._shared_at = now
        stored = {self._name_of(name): name for name in seconds}
        if not stored:
            return
        try:
            ahead = await run_in_threadpool(share, self._db, {new: seconds[name] for new, name in stored.items()})
        except (SquinneyError, PyMongoError):
            log.debug("rates are not shared", exc_info=True)  # they count in each process until the next time
            return
        learned_at = time.monotonic()
        for new, at in ahead.items():
            name = stored[new]
            due_at = learned_at + at + self._passed[name] / self._per_second  # what passed meanwhile is not shared yet
            # guard: what other processes let pass counts
            self._due_at[name] = max(self._due_at.get(name, learned_at), due_at)


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
