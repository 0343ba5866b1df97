"""`Hits`: counts page views as they happen, and returns complete series."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.errors import DuplicateKeyError

from squinney import checks
from squinney.analytics import rules
from squinney.analytics.calendar import HOUR, Unit, following, is_whole, zone
from squinney.analytics.hits import increments, queries, series
from squinney.analytics.hits.documents import DAILY_HITS, MAX_PAGE_LENGTH, MONTHLY_HITS
from squinney.analytics.hits.increments import Hit, Increments, checked, filter_for
from squinney.analytics.hits.series import Frame, Point
from squinney.analytics.rules import MAX_SITE_LENGTH
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.transactions import Key, Step

MAX_PAGES = 1_000
MAX_SITES = 1_000
MAX_AT_ONCE = 100_000
PREALLOCATIONS_A_DAY = 2
HOURS_OF_ZEROS = {str(hour): 0 for hour in range(24)}
MINUTES_OF_ZEROS = {str(hour): {str(minute): 0 for minute in range(60)} for hour in range(24)}


class Hits:
    """Counters of page views by minute, hour, day and month. One hit is one upsert per document, without a read.

    With `preallocate`, `record` sometimes creates the next day's documents in advance, with a probability that depends
    on the page's rate. It is off by default, because it does not pay on WiredTiger (see the analytics page).
    """

    def __init__(self, db: Db, *, preallocate: bool = False, rng: random.Random | None = None) -> None:
        # guard: hits pin their database
        self._db = pinned(db)
        self._preallocate = preallocate
        self._rng = rng or random.Random()

    # ---- counting ----

    @operation()
    def record(
        self,
        site: str,
        page: str,
        at: datetime,
        count: int = 1,
        *,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> None:
        """Count `count` views of a page, once per `key`. `also` are further steps, which happen with it or not at all.

        Atomic: one transaction with two upserts, of the day's and the month's document, and with the key's record.
        After a crash: the views are counted in both documents or in none.
        Raises: `Invalid`, `Busy`, `LimitReached`; the errors of `also`; with a key `KeyReused`.
        """
        hit = checked(site, page, at, count)
        increments.apply(self._db, Increments([hit]), key=key, also=also)
        if self._preallocate:
            self._preallocate_sometimes(hit)

    @operation(60)
    def record_many(self, hits: Iterable[tuple[Any, ...]], *, key: str | Key | None = None) -> int:
        """Count many hits, given as (site, page, at) or (site, page, at, count), once per `key`; return their number.

        Hits of the same page and day are added up first, for one upsert per document. Nothing is written if any hit is
        invalid.

        Atomic: one transaction per 500 pages and days, with a record of the key.
        After a crash: the hits of some pages are counted; a repeat with the same key counts the others.
        Raises: `Invalid`, `Busy`, `LimitReached`; with a key also `KeyReused`.
        """
        summed = Increments()
        for number, hit in enumerate(hits):
            if number >= MAX_AT_ONCE:
                raise Invalid(f"at most {MAX_AT_ONCE} hits at once", field="hits", limit=MAX_AT_ONCE)
            summed.add(_hit(hit))
        increments.apply(self._db, summed, key=key)
        return summed.hits

    def _preallocate_sometimes(self, hit: Hit) -> None:
        """Preallocate about twice a day, estimating the page's rate by its total of the day before."""
        yesterday = hit.at.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
        day = self._db[DAILY_HITS].find_one(filter_for(yesterday, hit.site, hit.page), {"total": 1})
        rate = max(1, day["total"]) if day else 1
        if self._rng.random() < PREALLOCATIONS_A_DAY * hit.views / rate:
            self.preallocate(hit.site, hit.page, hit.at + timedelta(days=1))

    @operation()
    def preallocate(self, site: str, page: str, day: datetime) -> None:
        """Create the documents of a page's day and month with zeros, if they do not exist; counts are never changed.

        Atomic: each document separately.
        After a crash: one document may be missing; the first hit creates it.
        Raises: `Invalid`.
        """
        hit = checked(site, page, day)
        date = hit.at.replace(hour=0, minute=0, second=0, microsecond=0)
        first = date.replace(day=1)
        days = (following(first, "month", UTC) - first).days
        self._set_on_insert(DAILY_HITS, date, hit, {"total": 0, "hourly": HOURS_OF_ZEROS, "minute": MINUTES_OF_ZEROS})
        daily = {str(number): 0 for number in range(1, days + 1)}
        self._set_on_insert(MONTHLY_HITS, first, hit, {"total": 0, "daily": daily})

    def _set_on_insert(self, name: str, date: datetime, hit: Hit, zeros: dict[str, Any]) -> None:
        where = filter_for(date, hit.site, hit.page)
        with suppress(DuplicateKeyError):  # another call created it at the same moment
            self._db[name].update_one(where, {"$setOnInsert": zeros}, upsert=True)

    # ---- reading ----

    @operation(30, reads_only=True)
    def minutes(self, site: str, page: str, start: datetime, end: datetime, *, time_zone: str = "UTC") -> list[Point]:
        """Return the hits of each minute."""
        return self.series(site, page, start, end, "minute", time_zone=time_zone)

    @operation(30, reads_only=True)
    def hours(self, site: str, page: str, start: datetime, end: datetime, *, time_zone: str = "UTC") -> list[Point]:
        """Return the hits of each hour."""
        return self.series(site, page, start, end, "hour", time_zone=time_zone)

    @operation(30, reads_only=True)
    def days(self, site: str, page: str, start: datetime, end: datetime, *, time_zone: str = "UTC") -> list[Point]:
        """Return the hits of each day."""
        return self.series(site, page, start, end, "day", time_zone=time_zone)

    @operation(30, reads_only=True)
    def weeks(self, site: str, page: str, start: datetime, end: datetime, *, time_zone: str = "UTC") -> list[Point]:
        """Return the hits of each week, which begins on Monday."""
        return self.series(site, page, start, end, "week", time_zone=time_zone)

    @operation(30, reads_only=True)
    def months(self, site: str, page: str, start: datetime, end: datetime, *, time_zone: str = "UTC") -> list[Point]:
        """Return the hits of each month."""
        return self.series(site, page, start, end, "month", time_zone=time_zone)

    @operation(30, reads_only=True)
    def series(
        self, site: str, page: str | None, start: datetime, end: datetime, unit: Unit, *, time_zone: str = "UTC"
    ) -> list[Point]:
        """Return the hits of each unit, from the one that contains `start` to the last one before `end`, with zeros.

        Without a `page` (None), the hits of all pages of the site are added up, which reads the documents of all pages.
        Counts are stored in UTC. The units of another time zone are added up from the coarsest stored counts that fit.

        Raises: `Invalid`.
        """
        _check_names(site, page or "")
        start, end = rules.checked_range(start, end)
        frame = Frame(start, end, unit, zone(time_zone))
        return frame.filled(self._counts(site, page, frame)) if frame.starts else []

    def _counts(self, site: str, page: str | None, frame: Frame) -> Iterable[tuple[datetime, int]]:
        of_page: dict[str, Any] = {} if page is None else {"page": page}
        query = queries.DAYS_OF_SITE if page is None else queries.DAYS_OF_PAGE
        start = frame.starts[0].replace(hour=0, minute=0)
        if frame.grain == "day":
            query, start = queries.MONTHS_OF_SITE if page is None else queries.MONTHS_OF_PAGE, start.replace(day=1)
        projection = {"_id": 0, "metadata.date": 1, series.FIELDS[frame.grain]: 1}
        documents = query.find(self._db, site=site, start=start, end=frame.end, projection=projection, **of_page)
        return series.counts_in(documents, frame.grain)

    @operation(30, reads_only=True)
    def top_pages(self, site: str, start: datetime, end: datetime, limit: int = 10) -> list[Document]:
        """Return the pages with the most hits between two whole hours: rows of `page` and `hits`.

        Raises: `Invalid`.
        """
        _check_names(site, "")
        checks.integer(limit, "limit", minimum=1, maximum=MAX_PAGES)
        bounds = _whole_hours(start, end)
        pages = queries.TOP_PAGES.run(self._db, site=site, limit=limit, **bounds)
        return [{"page": row["_id"], "hits": row["hits"]} for row in pages]

    @operation(30, reads_only=True)
    def site_total(self, site: str, start: datetime, end: datetime) -> int:
        """Return the number of hits of a site between two whole hours.

        Raises: `Invalid`.
        """
        _check_names(site, "")
        rows = queries.SITE_TOTAL.run(self._db, site=site, **_whole_hours(start, end))
        return sum(row["hits"] for row in rows)

    @operation(reads_only=True)
    def sites(self) -> list[str]:
        """Return the names of sites that have hits, sorted; at most the first thousand."""
        return [row["_id"] for row in queries.SITES.run(self._db, limit=MAX_SITES)]

    @operation(reads_only=True)
    def last_day(self, site: str) -> datetime | None:
        """Return the last day on which the site had hits, or None."""
        _check_names(site, "")
        last = (
            self._db[DAILY_HITS].find({"metadata.site": site, "total": {"$gt": 0}}).sort("metadata.date", -1).limit(1)
        )
        return next((day["metadata"]["date"] for day in last), None)


def _hit(hit: Any) -> Hit:
    if not isinstance(hit, tuple | list) or not 3 <= len(hit) <= 4:
        raise Invalid("hits: a hit is (site, page, at) or (site, page, at, count)", field="hits")
    return checked(*hit)


def _check_names(site: str, page: str) -> None:
    checks.text(site, "site", max_length=MAX_SITE_LENGTH)
    checks.text(page, "page", max_length=MAX_PAGE_LENGTH)


def _whole_hours(start: datetime, end: datetime) -> dict[str, Any]:
    start, end = rules.checked_range(start, end)
    if not (is_whole(start, HOUR) and is_whole(end, HOUR)):
        raise Invalid("start and end must be whole hours in UTC", field="start")
    return {"first_day": start.replace(hour=0), "start": start, "end": end}
