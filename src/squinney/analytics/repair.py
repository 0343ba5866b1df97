"""Checks and repairs of pages, hits and roll-ups. Hits are repaired from their minutes, roll-ups from their events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

from pymongo.client_session import ClientSession

from squinney.analytics.events.documents import EVENTS, IMPORTS
from squinney.analytics.events.queries import AHEAD_OF_IMPORT, MISSHAPEN
from squinney.analytics.hits import queries
from squinney.analytics.hits.documents import DAILY_HITS, MONTHLY_HITS
from squinney.analytics.hits.increments import filter_for, transact
from squinney.analytics.rollups.rollups import Rollups
from squinney.analytics.rollups.verify import verify
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Check, Problem, problems, repair_problems
from squinney.mongo.schema import Db, Document


def find_problems(db: Db) -> Iterator[Problem]:
    """Yield every violated invariant. Hits are read from one snapshot, so concurrent counting is not reported.

    Raises: `SnapshotTooOld`, `Unavailable`.
    """
    db = pinned(db)
    yield from problems(db, CHECKS)
    yield from verify(db)


@operation(None)
def repair(db: Db) -> Counter[str]:
    """Set days to the sum of their minutes and months to that of their days, describe pages, rebuild roll-ups.

    Atomic: each document, in a transaction that also reads the numbers it sums; each bucket.
    After a crash: some documents are repaired; run it again.
    """
    db = pinned(db)
    differing = [problem for problem in verify(db) if problem.code == "rollup-differs"]
    done = repair_problems(db, CHECKS)
    done["roll-ups rebuilt"] += _rebuild(db, differing)
    return +done


def _set_day(db: Db, day_id: str, session: ClientSession) -> int:
    day = db[DAILY_HITS].find_one({"_id": day_id}, session=session)
    if day is None:
        return 0
    hourly = {hour: sum(minutes.values()) for hour, minutes in day.get("minute", {}).items()}
    values = {"hourly": hourly, "total": sum(hourly.values())}
    return db[DAILY_HITS].update_one({"_id": day_id}, {"$set": values}, session=session).modified_count


def _set_month(db: Db, metadata: Document, session: ClientSession) -> int:
    first, site, page = metadata["date"], metadata["site"], metadata["page"]
    following = (first + timedelta(days=32)).replace(day=1)
    where = queries.DAYS_OF_PAGE(site=site, page=page, start=first, end=following)
    days = db[DAILY_HITS].find(where, {"metadata.date": 1, "total": 1}, session=session)
    daily = {str(day["metadata"]["date"].day): day["total"] for day in days}
    values = {"daily": daily, "total": sum(daily.values())}
    updated = db[MONTHLY_HITS].update_one(filter_for(first, site, page), {"$set": values}, upsert=True, session=session)
    return updated.modified_count or int(updated.upserted_id is not None)


def _describe_page(db: Db, page: Document) -> int:
    """Set what the page says about its events by the events, if only that is wrong."""
    told = {"n": {"$size": "$events"}, "from": {"$min": "$events.time"}, "to": {"$max": "$events.time"}}
    return db[EVENTS].update_one({"_id": page["_id"]}, [{"$set": told}]).modified_count


def _ahead_of_import(db: Db) -> Iterator[Document]:
    """Yield a page of each source that has lines after its checkpoint: an import would store them again."""
    for record in db[IMPORTS].find({}, {"name": 1, "offset": 1}):
        page = AHEAD_OF_IMPORT.find_one(db, source=record["_id"], offset=record["offset"], projection={"end": 1})
        if page:
            yield {**page, "name": record["name"], "offset": record["offset"]}


CHECKS = [  # days first, because months are computed from days
    Check(
        "wrong-day",
        queries.UNLIKE_MINUTES,
        "{metadata[site]} {metadata[page]} on {metadata[date]:%Y-%m-%d}: total or hours differ from the sum of minutes",
        repair=lambda db, day: transact(db, partial(_set_day, db, day["_id"])),
        counted_as="days set",
    ),
    Check(
        "wrong-month",
        queries.UNLIKE_DAYS,
        "{_id[site]} {_id[page]} in {_id[date]:%Y-%m}: differs from the sum of its days",
        repair=lambda db, month: transact(db, partial(_set_month, db, month["_id"])),
        counted_as="months set",
        collection=MONTHLY_HITS,
    ),
    Check(
        "hits-ahead",
        lambda db: db["analytics.imports"].find({"$expr": {"$gt": ["$hits_offset", "$offset"]}}),
        "{name} has hits for lines that are not imported",
        collection="analytics.imports",
    ),
    Check(
        "wrong-page",
        MISSHAPEN,
        lambda page: f"the page {page['_id']} is not what its events say: {', '.join(page['why'])}",
        repair=_describe_page,
        repairable=lambda page: set(page["why"]) <= {"n", "from", "to"},
        counted_as="pages described",
    ),
    Check(
        "page-ahead",
        _ahead_of_import,
        "{name} has events up to byte {end}, but is imported up to {offset}",
        collection=EVENTS,
    ),
]


def _rebuild(db: Db, problems: list[Problem]) -> int:
    """Rebuild the time around each differing bucket at all levels; return the number of those buckets."""
    rebuilt = 0
    for rollups in Rollups.registered(db):
        for bucket in (problem.documents for problem in problems if problem.documents["name"] == rollups.name):
            days = {"yearly": 367, "monthly": 32, "weekly": 8}.get(bucket["level"], 2)
            rebuild_span(rollups, bucket["at"] - timedelta(days=1), bucket["at"] + timedelta(days=days))
            rebuilt += 1
    return rebuilt


def rebuild_span(rollups: Rollups, start: datetime, end: datetime) -> None:
    """Recompute a roll-up's buckets of a time from the events, or from the finest level where events were dropped."""
    frozen_before = rollups.frozen_before() or start
    if frozen_before < end:
        rollups.rebuild(max(start, frozen_before), end)
    if start < frozen_before:
        rollups.regroup(start, min(frozen_before, end))
