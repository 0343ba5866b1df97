"""Run functions concurrently in several threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

from squinney.errors import SquinneyError

T = TypeVar("T")


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Call `work` in `count` threads that start together; return their results, or raise the first error."""
    barrier = Barrier(count)

    def begin(number: int) -> T:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def outcomes(attempts: list[Callable[[], Any]], threads: int = 8) -> list[Any]:
    """Run all attempts concurrently; return the result or the error of each."""

    def outcome(attempt: Callable[[], Any]) -> Any:
        try:
            return attempt()
        except SquinneyError as error:
            return error

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(outcome, attempts))
