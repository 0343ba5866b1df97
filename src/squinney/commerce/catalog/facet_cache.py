"""A cache of facet counts for the shop's pages: bounded, and computed by one request at a time."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from threading import Event, Lock
from typing import Any

from squinney.commerce.catalog.catalog import Catalog
from squinney.errors import SquinneyError
from squinney.mongo.connect import operation

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
    most_kept: int = 1_000
    clock: Callable[[], float] = time.monotonic
    _lock: Lock = field(default_factory=Lock, init=False)
    _kept: OrderedDict[Any, tuple[Counts | None, float]] = field(default_factory=OrderedDict, init=False)
    _counting: dict[Any, Event] = field(default_factory=dict, init=False)

    def facets(self, *, by: Sequence[str], most: int = 20, **filters: str) -> Counts | None:
        """Return `Catalog.facets`, or None if there is no result in time."""
        key = ("facets", tuple(by), most, tuple(sorted(filters.items())))
        return self._get(key, lambda: self.catalog.facets(by=by, most=most, up_to=self.up_to, **filters))

    def subtree_facets(
        self, category: str, *, by: Sequence[str], most: int = 20, type: str | None = None
    ) -> Counts | None:
        """Return `Catalog.subtree_facets`, or None if there is no result in time."""
        key = ("subtree", category, tuple(by), most, type)
        count = self.catalog.subtree_facets
        return self._get(key, lambda: count(category, by=by, most=most, type=type, up_to=self.up_to))

    def _get(self, key: Any, count: Callable[[], Counts]) -> Counts | None:
        with self._lock:
            counts, valid_until = self._kept.get(key, (None, 0.0))
            if self.clock() < valid_until:
                return counts
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
        except SquinneyError as error:
            log.warning("facets could not be counted for a shop page: %s", error)
        finally:
            self._keep(key, counts, keep_seconds)
        return counts

    def _keep(self, key: Any, counts: Counts | None, seconds: float) -> None:
        with self._lock:
            self._kept[key] = (counts, self.clock() + seconds)
            self._kept.move_to_end(key)
            if len(self._kept) > self.most_kept:
                self._kept.popitem(last=False)
            self._counting.pop(key).set()
