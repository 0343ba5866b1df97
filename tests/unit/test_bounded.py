"""What is kept in memory for unknown callers is bounded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from squinney.patterns.bounded import Bounded


def test_the_entry_that_was_set_longest_ago_is_forgotten() -> None:
    kept = Bounded[str, int](2)
    kept["a"], kept["b"], kept["a"], kept["c"] = 1, 2, 3, 4
    assert dict(kept) == {"a": 3, "c": 4}
    assert kept.pop("a") == 3
    assert Bounded[str, int](0).setdefault("a", 1) == 1


def test_threads_may_share_one() -> None:
    kept = Bounded[int, int](10)

    def use(thread: int) -> None:
        for number in range(5_000):
            kept[number % 20] = thread
            kept.pop((number + thread) % 20, None)
            assert kept.get(number % 7, 0) in range(4)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    assert len(kept) <= 10
