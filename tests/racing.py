"""Run a function in several threads that start at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Call `work` in `count` threads that start together; return their results, or raise the first error."""
    barrier = Barrier(count)

    def begin(number: int) -> T:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))
