"""Hits as increments: many hits on one page become one upsert for its day and one for its month."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import bson
from pymongo import UpdateOne
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from squinney import checks
from squinney.analytics import rules
from squinney.analytics.events.documents import LONGEST_SITE
from squinney.analytics.hits.documents import DAILY_HITS, LONGEST_PAGE, MONTHLY_HITS
from squinney.errors import LimitReached
from squinney.mongo.connect import seconds_left
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.transactions import Key, Tries, in_transaction, once

R = TypeVar("R")

MOST_HITS = 10**12
PAGES_AT_ONCE = 500
BAD_VALUE = 2  # what the server says to a number that grows beyond 64 bits
SECONDS = 60


class Hit(NamedTuple):
    """Some views of a page at a time."""

    site: str
    page: str
    at: datetime
    views: int = 1


def checked(site: Any, page: Any, at: Any, count: Any = 1) -> Hit:
    """A hit from outside. Names of sites and pages may be anything that is text, also empty.

    Raises: `Invalid`.
    """
    return Hit(
        checks.text(site, "site", most=LONGEST_SITE),
        checks.text(page, "page", most=LONGEST_PAGE),
        rules.checked_moment(at, "at"),
        checks.integer(count, "count", least=1, most=MOST_HITS),
    )


def id_of(date: datetime, site: str, page: str) -> str:
    """The document's id: a hash of the three, encoded apart, so that no two can run into each other."""
    return hashlib.sha256(bson.encode({"d": date, "s": site, "p": page})).hexdigest()[:32]


class Increments:
    """Hits summed by minute, for each page and day. Not safe for threads: its owner locks."""

    def __init__(self, hits: Iterable[Hit] = ()) -> None:
        self._minutes: dict[tuple[str, str, datetime], dict[int, int]] = {}
        self.hits = 0
        for hit in hits:
            self.add(hit)

    def add(self, hit: Hit) -> None:
        """Count a hit, whose time is in UTC."""
        site, page, at, views = hit
        day = datetime(at.year, at.month, at.day, tzinfo=UTC)
        minutes = self._minutes.get((site, page, day))
        if minutes is None:
            minutes = self._minutes[site, page, day] = {}
        minute = at.hour * 60 + at.minute
        minutes[minute] = minutes.get(minute, 0) + views
        self.hits += views

    def __iter__(self) -> Iterator[Hit]:
        """One hit for each page and minute."""
        for (site, page, day), minutes in self._minutes.items():
            for minute, views in minutes.items():
                yield Hit(site, page, day + timedelta(minutes=minute), views)

    def parts(self, size: int) -> Iterator[Increments]:
        """The same in portions of up to `size` pages and days."""
        pages = iter(self._minutes.items())
        while chosen := dict(islice(pages, size)):
            part = Increments()
            part._minutes = chosen
            part.hits = sum(sum(minutes.values()) for minutes in chosen.values())
            yield part

    def fingerprint(self) -> str:
        """What tells these from others."""
        return hashlib.sha256(bson.encode({"hits": [list(hit) for hit in self]})).hexdigest()

    def write(self, db: Db, session: ClientSession) -> None:
        """Send the upserts within a transaction.

        Raises: `LimitReached`.
        """
        batches: dict[str, list[UpdateOne]] = defaultdict(list)
        for name, upsert in self.upserts():
            batches[name].append(upsert)
        try:
            for name, batch in batches.items():
                db[name].bulk_write(batch, ordered=False, session=session)
        except OperationFailure as error:
            if BAD_VALUE in _codes(error):
                raise LimitReached(f"a page has at most {checks.INT64_MAX} hits", field="count") from error
            raise

    def upserts(self) -> Iterator[tuple[str, UpdateOne]]:
        """One upsert for each document concerned, with its collection; each filter holds the whole shard key."""
        months: dict[tuple[str, str, datetime], dict[int, int]] = defaultdict(dict)
        for (site, page, day), minutes in self._minutes.items():
            months[site, page, day.replace(day=1)][day.day] = sum(minutes.values())
            yield DAILY_HITS, _upsert(day, site, page, _day_increments(minutes))
        for (site, page, month), days in months.items():
            yield MONTHLY_HITS, _upsert(month, site, page, _month_increments(days))


def _upsert(date: datetime, site: str, page: str, increments: dict[str, int]) -> UpdateOne:
    return UpdateOne(filter_for(date, site, page), {"$inc": increments}, upsert=True)


def filter_for(date: datetime, site: str, page: str) -> Document:
    """The filter that finds a page's document of a day or month, or makes it with these very fields."""
    return {
        "_id": id_of(date, site, page),
        "metadata.date": date,
        "metadata.site": site,
        "metadata.page": page,
    }


def _day_increments(minutes: dict[int, int]) -> dict[str, int]:
    increments: dict[str, int] = {"total": sum(minutes.values())}
    for minute, count in minutes.items():
        hour = f"hourly.{minute // 60}"
        increments[hour] = increments.get(hour, 0) + count
        increments[f"minute.{minute // 60}.{minute % 60}"] = count
    return increments


def _month_increments(days: dict[int, int]) -> dict[str, int]:
    return {"total": sum(days.values()), **{f"daily.{day}": count for day, count in days.items()}}


def apply(db: Db, increments: Increments, *, key: str | Key | None = None) -> None:
    """Write the increments in transactions of up to `PAGES_AT_ONCE` pages, each with its day and its month.

    With a key, each transaction holds a record of it, and those that were done before are passed over.

    Atomic: each transaction.
    After a crash: some pages have their part, others not; never a day without its month.
    Raises: `Busy`, `LimitReached`, `Unavailable`; with a key also `KeyReused`.
    """
    arguments = {} if key is None else {"hits": increments.fingerprint()}
    by_key = partial(once, key=key, arguments=arguments, seconds=SECONDS)
    for number, part in enumerate(increments.parts(PAGES_AT_ONCE)):
        retry_duplicates(partial(by_key, db, f"count-hits {number}", partial(part.write, db)))


def transact(db: Db, work: Callable[[ClientSession], R], *, upserts: bool = True) -> R:
    """Run `work` as one transaction, again where it meets others; an enclosing `operation` bounds it.

    Where `work` inserts rather than upserts, a duplicate is its own to interpret.

    Raises: `Busy`, and nothing was changed; `Unavailable`.
    """
    run = partial(in_transaction, db, work, seconds=SECONDS)
    return retry_duplicates(run) if upserts else run()


def retry_duplicates(run: Callable[[], R]) -> R:
    """Two writers that make the same document at the same moment race, and the loser's is refused as a duplicate.

    That ends its transaction like any conflict, but the server does not say so.

    Raises: `Busy`.
    """
    tries = Tries(seconds_left() - 1)
    while True:
        try:
            return run()
        except OperationFailure as error:
            if not is_duplicate(error):
                raise
            tries.pause(error)


def is_duplicate(error: OperationFailure) -> bool:
    """Whether an insert met a document with the same id."""
    return DUPLICATE_KEY in _codes(error)


def _codes(error: OperationFailure) -> set[Any]:
    details: Any = error.details or {}
    return {error.code, *(one.get("code") for one in details.get("writeErrors", []))}
