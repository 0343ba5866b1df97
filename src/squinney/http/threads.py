"""Kinds of work that wait or compute, each with threads of its own: however much of it comes, pages keep theirs."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, fail_after, to_thread
from anyio.lowlevel import RunVar

from squinney.errors import Unavailable
from squinney.mongo.connect import request_clock

P = ParamSpec("P")
R = TypeVar("R")


class Work:
    """So much of one kind of work at once; so much more may wait, for so long. The rest is told to come again.

    Work that is not `timed` lasts as long as the caller's line does; only its parts have a time limit.
    """

    def __init__(
        self, name: str, *, at_once: int, most_waiting: int, wait_seconds: float = 5.0, timed: bool = True
    ) -> None:
        self._name = name
        self._timed = timed
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._wait_seconds = wait_seconds
        # One for each event loop: a test, or a program with several, must not wait for another loop's work.
        self._turns: RunVar[CapacityLimiter] = RunVar(f"{name} turns")
        self._threads: RunVar[CapacityLimiter] = RunVar(f"{name} threads")

    def __call__(self, endpoint: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
        """The endpoint as one that runs as this kind of work; the framework would give it a thread of the pages."""

        @functools.wraps(endpoint)
        async def limited(*args: P.args, **kwargs: P.kwargs) -> R:
            return await self.run(functools.partial(endpoint, *args, **kwargs))

        return limited

    async def run(self, function: Callable[[], R]) -> R:
        """Call it in a thread when there is a turn.

        Raises: `Unavailable` where too many wait, or the wait is too long.
        """
        if not self._timed and (clock := request_clock.get()):
            clock.began = None
        async with self._turn():
            return await to_thread.run_sync(function, limiter=_own(self._threads, math.inf))

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        turns = _own(self._turns, self._at_once)
        if turns.statistics().tasks_waiting >= self._most_waiting:
            raise self._refusal()
        holder = object()
        try:
            with fail_after(self._wait_seconds):
                await turns.acquire_on_behalf_of(holder)
        except TimeoutError:
            raise self._refusal() from None
        try:
            yield
        finally:
            turns.release_on_behalf_of(holder)

    def _refusal(self) -> Unavailable:
        return Unavailable(
            f"too many are {self._name} at this moment", retry_after_seconds=max(1, round(self._wait_seconds))
        )


def _own(variable: RunVar[CapacityLimiter], size: float) -> CapacityLimiter:
    try:
        return variable.get()
    except LookupError:
        limiter = CapacityLimiter(size)
        variable.set(limiter)
        return limiter


CORES = os.cpu_count() or 1
# Each password takes 64 MB and all of a core for some 50 ms.
PASSWORDS = Work("signing in or up", at_once=max(1, CORES // 2), most_waiting=20)
# Rendering and diffs hold the interpreter, which pages need too: two at once would not be done sooner, and leave a page
# a third of it instead of half.
COMPUTING = Work("having something computed", at_once=1, most_waiting=20)
# A thread waits for the caller's line.
UPLOADS = Work("uploading", at_once=16, most_waiting=16, timed=False)
# A photo in a form is there already, and its decoder takes two at once: an animation may take it ten seconds, which are
# not the post's.
PHOTOS = Work("posting photos", at_once=2, most_waiting=20, timed=False)
# Asked by whoever watches over the service, also while all other threads wait for MongoDB.
PROBES = Work("asking how we are", at_once=4, most_waiting=20)
