"""Run operations in threads, so that an `asyncio` application can wait for them without blocking its event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Apart from the application's own threads, so that neither uses up those of the other. More make the event loop wait
# longer for its turn between them (docs/benchmarks/event_loop.md).
MAX_THREADS = 16


async def in_thread(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function in a thread and wait for its result: `await in_thread(accounts.transfer, ada, bob, 5, key=key)`.

    At most 16 calls run at the same time; others wait for a thread. A call that is cancelled while it runs goes on to
    its end: whether it happened, a repeat with the same key tells. One that is cancelled while it waits for a thread
    does not run.

    Raises: what the function raises.
    """
    loop = asyncio.get_running_loop()
    call = partial(function, *args, **kwargs)
    return await loop.run_in_executor(_threads(), copy_context().run, call)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="squinney")


os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork
