"""Tests of the facet cache: one count for all requests, and no page waits for long."""

from __future__ import annotations

import time
from threading import Barrier, Event, Thread
from typing import Any, cast

from squinney.commerce import Catalog, FacetCache
from squinney.errors import Unavailable


class Counting:
    """A catalog that records its calls, and that can be slow or unavailable."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.away = False
        self.go_on = Event()
        self.go_on.set()

    def facets(self, **asked: Any) -> dict[str, Any]:
        """Return the number of calls as the total."""
        self.asked.append(asked)
        if self.away:
            raise Unavailable("MongoDB took too long to answer")
        assert self.go_on.wait(120)
        return {"total": len(self.asked)}


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def kept(catalog: Counting, **options: Any) -> FacetCache:
    """Return a facet cache of this catalog."""
    return FacetCache(cast(Catalog, catalog), **options)


def test_a_count_is_bounded_and_kept_for_a_while() -> None:
    catalog, clock = Counting(), Clock()
    facets = kept(catalog, up_to=500, keep_seconds=60, clock=clock)
    assert [facets.facets(by=["type"], genre="Jazz") for _ in range(3)] == [{"total": 1}] * 3
    assert facets.facets(by=["type"], genre="Rock") == {"total": 2}
    clock.now = 61
    assert facets.facets(by=["type"], genre="Jazz") == {"total": 3}
    assert {asked["up_to"] for asked in catalog.asked} == {500}


def test_visitors_at_once_cause_one_count() -> None:
    catalog, together = Counting(), Barrier(9)
    catalog.go_on.clear()
    facets, seen = kept(catalog, wait_seconds=30), list[Any]()

    def visit() -> None:
        together.wait()
        seen.append(facets.facets(by=["type"]))

    threads = [Thread(target=visit) for _ in range(8)]
    for thread in threads:
        thread.start()
    together.wait()
    until = time.monotonic() + 0.3  # a second count would begin by then
    while len(catalog.asked) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    catalog.go_on.set()
    for thread in threads:
        thread.join()
    assert (seen, len(catalog.asked)) == ([{"total": 1}] * 8, 1)


def test_nobody_waits_long_for_a_count() -> None:
    """A request that arrives during a count gets the previous counts, or none."""
    catalog, clock = Counting(), Clock()
    facets = kept(catalog, wait_seconds=0, clock=clock)
    for expected in (None, {"total": 1}):
        catalog.go_on.clear()
        asked = len(catalog.asked)
        first = Thread(target=lambda: facets.facets(by=["type"]))
        first.start()
        while len(catalog.asked) == asked:
            pass
        assert facets.facets(by=["type"]) == expected
        catalog.go_on.set()
        first.join()
        clock.now += 61


def test_a_failed_count_gives_what_was_kept_or_nothing_and_is_not_repeated_at_once() -> None:
    catalog, clock = Counting(), Clock()
    facets = kept(catalog, keep_seconds=60, retry_seconds=10, clock=clock)
    catalog.away = True
    assert [facets.facets(by=["type"]) for _ in range(3)] == [None] * 3
    assert len(catalog.asked) == 1
    catalog.away, clock.now = False, 11
    assert facets.facets(by=["type"]) == {"total": 2}
    catalog.away, clock.now = True, 72
    assert facets.facets(by=["type"]) == {"total": 2}


def test_the_number_of_cached_counts_is_limited() -> None:
    catalog = Counting()
    facets = kept(catalog, max_kept=2)
    for genre in ("a", "b", "c", "c", "a"):
        facets.facets(by=["type"], genre=genre)
    assert [asked["genre"] for asked in catalog.asked] == ["a", "b", "c", "a"]
