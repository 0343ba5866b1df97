"""Separate thread limits for slow kinds of work, so that pages always have threads left."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, fail_after, to_thread
from anyio.lowlevel import RunVar

from squinney.errors import Unavailable
from squinney.mongo.deadlines import request_clock

P = ParamSpec("P")
R = TypeVar("R")


class ThreadLimit:
    """Limits one kind of work: `at_once` calls run, `max_waiting` wait up to `wait_seconds`, others are refused.

    With `timed=False` the request as a whole has no time limit, because its duration depends on the caller's
    connection; each operation in it still has one.
    """

    def __init__(
        self, name: str, *, at_once: int, max_waiting: int, wait_seconds: float = 5.0, timed: bool = True
    ) -> None:
        self._name = name
        self._timed = timed
        self._at_once = at_once
        self._max_waiting = max_waiting
        self._wait_seconds = wait_seconds
        # One per event loop: tests and programs with several loops must not wait for another loop's work.
        self._slots: RunVar[CapacityLimiter] = RunVar(f"{name} slots")

    def __call__(self, endpoint: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
        """Decorate an endpoint so that it runs under this limit, not in FastAPI's own threads."""

        @functools.wraps(endpoint)
        async def limited(*args: P.args, **kwargs: P.kwargs) -> R:
            return await self.run(functools.partial(endpoint, *args, **kwargs))

        return limited

    async def run(self, function: Callable[[], R]) -> R:
        """Call a function in a thread as soon as the limit allows.

        Raises: `Unavailable` if too many calls are waiting, or this one waits too long.
        """
        if not self._timed and (clock := request_clock.get()):
            clock.began = None
        async with self._slot():
            return await to_thread.run_sync(function, limiter=CapacityLimiter(1))  # it has its slot

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        try:
            slots = self._slots.get()
        except LookupError:
            slots = CapacityLimiter(self._at_once)
            self._slots.set(slots)
        if slots.statistics().tasks_waiting >= self._max_waiting:
            raise self._refusal()
        holder = object()
        try:
            with fail_after(self._wait_seconds):
                await slots.acquire_on_behalf_of(holder)
        except TimeoutError:
            raise self._refusal() from None
        try:
            yield
        finally:
            slots.release_on_behalf_of(holder)

    def _refusal(self) -> Unavailable:
        return Unavailable(
            f"too many {self._name} are in progress; try again later",
            retry_after_seconds=max(1, round(self._wait_seconds)),
        )


CORES = os.cpu_count() or 1
# Hashing a password takes 64 MB and a whole core for about 50 ms.
PASSWORDS = ThreadLimit("sign-ins", at_once=max(1, CORES // 2), max_waiting=20)
# Rendering and diffs hold the interpreter lock, which pages need too. Two at once would not finish sooner, and would
# leave a page a third of the interpreter's time instead of half.
COMPUTING = ThreadLimit("computations", at_once=1, max_waiting=20)
# A thread waits for the caller's connection.
UPLOADS = ThreadLimit("uploads", at_once=16, max_waiting=16, timed=False)
# A form's photo has already been received, and two decoders run at once. Decoding an animation may take ten seconds,
# which do not count towards the time limit of the post.
# guard: uploading a photo does not count against the time limit of its post
PHOTOS = ThreadLimit("photo posts", at_once=2, max_waiting=20, timed=False)
# A job or a repair takes as long as it needs; each of its operations still has its own time limit.
JOBS = ThreadLimit("jobs", at_once=2, max_waiting=4, timed=False)
# Health checks must be answered even while all other threads wait for MongoDB.
PROBES = ThreadLimit("health checks", at_once=4, max_waiting=20)
