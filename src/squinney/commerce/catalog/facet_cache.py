"""A cache of facet counts for the shop's pages: bounded, and computed by one request at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from threading import Event, Lock
from typing import Any

from squinney.commerce.catalog.catalog import Catalog
from squinney.errors import SquinneyError
from squinney.mongo.deadlines import operation
from squinney.patterns.bounded import Bounded

log = logging.getLogger(__name__)

Counts = dict[str, Any]


@dataclass(eq=False)
class FacetCache:
    """Caches the facets of a `Catalog` for pages, which also work without facets.

    A count covers at most `up_to` products, takes at most `count_seconds`, and is kept for `keep_seconds`. If several
    requests need the same count, one of them counts; the others get the previous result, or wait for `wait_seconds`. If
    a count fails, the previous result or None is used, and there is no new count for `retry_seconds`.
    """

    catalog: Catalog
    _: KW_ONLY
    up_to: int = 10_000
    keep_seconds: float = 60
    count_seconds: float = 2
    wait_seconds: float = 1
    retry_seconds: float = 10
    max_kept: int = 1_000
    clock: Callable[[], float] = time.monotonic
    _lock: Lock = field(default_factory=Lock, init=False)
    _kept: Bounded[Any, tuple[Counts | None, float]] = field(init=False)
    _counting: dict[Any, Event] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._kept = Bounded(self.max_kept)

    def facets(self, *, by: Sequence[str], limit: int = 20, **filters: str) -> Counts | None:
        """Return `Catalog.facets`, or None if there is no result in time."""
        key = ("facets", tuple(by), limit, tuple(sorted(filters.items())))
        # guard: facets count a bounded number of products
        return self._get(key, lambda: self.catalog.facets(by=by, limit=limit, up_to=self.up_to, **filters))

    def subtree_facets(
        self, category: str, *, by: Sequence[str], limit: int = 20, type: str | None = None
    ) -> Counts | None:
        """Return `Catalog.subtree_facets`, or None if there is no result in time."""
        key = ("subtree", category, tuple(by), limit, type)
        count = self.catalog.subtree_facets
        return self._get(key, lambda: count(category, by=by, limit=limit, type=type, up_to=self.up_to))

    def _get(self, key: Any, count: Callable[[], Counts]) -> Counts | None:
        with self._lock:
            counts, valid_until = self._kept.get(key, (None, 0.0))
            # guard: facet counts are cached
            if self.clock() < valid_until:
                return counts
            # guard: concurrent requests share one facet count
            running = self._counting.get(key)
            if running is None:
                self._counting[key] = Event()
        if running is None:
            return self._count(key, count, counts)
        if counts is None:
            running.wait(self.wait_seconds)
        with self._lock:
            return self._kept.get(key, (None, 0.0))[0]

    def _count(self, key: Any, count: Callable[[], Counts], previous: Counts | None) -> Counts | None:
        counts, keep_seconds = previous, self.retry_seconds
        try:
            with operation(self.count_seconds, reads_only=True):
                counts, keep_seconds = count(), self.keep_seconds
        # guard: products are shown even if their facets cannot be counted
        except SquinneyError as error:
            log.warning("facets could not be counted for a shop page: %s", error)
        finally:
            self._keep(key, counts, keep_seconds)
        return counts

    def _keep(self, key: Any, counts: Counts | None, seconds: float) -> None:
        with self._lock:
            self._kept[key] = (counts, self.clock() + seconds)
            self._counting.pop(key).set()
