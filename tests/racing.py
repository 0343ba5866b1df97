"""Threads that do a thing at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """What `count` threads that start together return; the first error of one of them is raised."""
    barrier = Barrier(count)

    def begin(number: int) -> T:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))
