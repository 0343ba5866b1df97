"""Hits as increments: all hits of a page become one upsert per day and one per month."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from squinney.analytics.hits.documents import DAILY_HITS, MAX_PAGE_LENGTH, MONTHLY_HITS
from squinney.analytics.rules import MAX_SITE_LENGTH
from squinney.errors import LimitReached
from squinney.mongo.deadlines import seconds_left
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.transactions import Key, Step, Tries, in_transaction, once

R = TypeVar("R")
DocumentKey = tuple[datetime, str, str]  # the date of a day or month, the site and the page

MAX_HITS = 10**12
PAGES_AT_ONCE = 500
BAD_VALUE = 2  # MongoDB's error code for a number that would exceed 64 bits
SECONDS = 60
OWN = {DAILY_HITS, MONTHLY_HITS}


class Hit(NamedTuple):
    """A number of views of a page at one time."""

    site: str
    page: str
    at: datetime
    views: int = 1


def checked(site: Any, page: Any, at: Any, count: Any = 1) -> Hit:
    """Validate a caller's hit. The names of sites and pages may be any text, including an empty one."""
    return Hit(
        checks.text(site, "site", max_length=MAX_SITE_LENGTH),
        checks.text(page, "page", max_length=MAX_PAGE_LENGTH),
        rules.checked_moment(at, "at"),
        checks.integer(count, "count", minimum=1, maximum=MAX_HITS),
    )


def id_of(date: datetime, site: str, page: str) -> str:
    """Return the document's id: a hash of the three values as BSON, so that different values cannot collide."""
    return hashlib.sha256(bson.encode({"d": date, "s": site, "p": page})).hexdigest()[:32]


class Increments:
    """Hits summed by minute, for each page and day. It is not thread-safe."""

    def __init__(self, hits: Iterable[Hit] = ()) -> None:
        self._minutes: dict[tuple[str, str, datetime], dict[int, int]] = {}
        self.hits = 0
        for hit in hits:
            self.add(hit)

    def add(self, hit: Hit) -> None:
        """Add a hit, whose time must be in UTC."""
        site, page, at, views = hit
        day = datetime(at.year, at.month, at.day, tzinfo=UTC)
        minutes = self._minutes.get((site, page, day))
        if minutes is None:
            minutes = self._minutes[site, page, day] = {}
        minute = at.hour * 60 + at.minute
        minutes[minute] = minutes.get(minute, 0) + views
        self.hits += views

    def __iter__(self) -> Iterator[Hit]:
        """Yield one hit for each page and minute."""
        for (site, page, day), minutes in self._minutes.items():
            for minute, views in minutes.items():
                yield Hit(site, page, day + timedelta(minutes=minute), views)

    def parts(self) -> Iterator[Increments]:
        """Split the increments into parts of up to `PAGES_AT_ONCE` pages and days, one for each transaction."""
        pages = iter(self._minutes.items())
        while chosen := dict(islice(pages, PAGES_AT_ONCE)):
            part = Increments()
            part._minutes = chosen
            part.hits = sum(sum(minutes.values()) for minutes in chosen.values())
            yield part

    def fingerprint(self) -> str:
        """Return a hash of all hits, to recognize a repeated call."""
        return hashlib.sha256(bson.encode({"hits": [list(hit) for hit in self]})).hexdigest()

    def write(self, db: Db, session: ClientSession) -> None:
        """Send one upsert per document, within a transaction.

        Raises: `LimitReached`.
        """
        try:
            for name, documents in self._by_document().items():
                upserts = [UpdateOne(filter_for(*key), {"$inc": sums}, upsert=True) for key, sums in documents.items()]
                db[name].bulk_write(upserts, ordered=False, session=session)
        except OperationFailure as error:
            if BAD_VALUE in _codes(error):
                raise LimitReached(f"count: a page has at most {checks.INT64_MAX} hits", field="count") from error
            raise

    def _by_document(self) -> dict[str, dict[DocumentKey, Counter[str]]]:
        """Return the increments of each document, by the name of its collection."""
        days: dict[DocumentKey, Counter[str]] = defaultdict(Counter)
        months: dict[DocumentKey, Counter[str]] = defaultdict(Counter)
        for (site, page, day), minutes in self._minutes.items():
            of_day, of_month = days[day, site, page], months[day.replace(day=1), site, page]
            for minute, views in minutes.items():
                hour = minute // 60
                of_day[f"hourly.{hour}"] += views
                of_day[f"minute.{hour}.{minute % 60}"] = views
            of_day["total"] = sum(minutes.values())
            of_month[f"daily.{day.day}"] = of_day["total"]
            of_month["total"] += of_day["total"]
        return {DAILY_HITS: days, MONTHLY_HITS: months} if days else {}


def filter_for(date: datetime, site: str, page: str) -> Document:
    """Return the filter of a page's day or month, which contains the shard key; an upsert creates these fields."""
    return {
        "_id": id_of(date, site, page),
        "metadata.date": date,
        "metadata.site": site,
        "metadata.page": page,
    }


def apply(db: Db, increments: Increments, *, key: str | Key | None = None, also: Sequence[Step] = ()) -> None:
    """Write the increments in transactions of up to `PAGES_AT_ONCE` pages and days.

    With a key, each transaction contains a record of the key, and transactions that were committed before are skipped.
    `also` are further steps of each transaction.

    Atomic: each transaction.
    After a crash: the hits of some pages are counted, always in the day and the month together.
    Raises: `Busy`, `LimitReached`, `Unavailable`; with a key also `KeyReused`.
    """
    arguments = {} if key is None else {"hits": increments.fingerprint()}
    by_key = partial(once, key=key, arguments=arguments, also=also, own=OWN, seconds=SECONDS)
    for number, part in enumerate(increments.parts()):
        retry_duplicates(partial(by_key, db, f"count-hits {number}", partial(part.write, db)))


def transact(db: Db, work: Callable[[ClientSession], R]) -> R:
    """Run `work` as one transaction and retry it on conflicts, within the deadline of the enclosing `operation`.

    Raises: `Busy` if nothing was changed; `Unavailable`.
    """
    return retry_duplicates(partial(in_transaction, db, work, seconds=SECONDS))


def retry_duplicates(run: Callable[[], R]) -> R:
    """Call `run` again after a duplicate-key error; raise `Busy` at the deadline of the enclosing `operation`.

    When two upserts create the same document at the same moment, one fails as a duplicate. That aborts its transaction
    like any conflict, but MongoDB does not label the error as retryable.
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
    """Return True if a document with the same id exists already."""
    return DUPLICATE_KEY in _codes(error)


def _codes(error: OperationFailure) -> set[Any]:
    details: Any = error.details or {}
    return {error.code, *(failure.get("code") for failure in details.get("writeErrors", []))}
