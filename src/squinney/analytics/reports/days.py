"""`ReportDays`: computes the days of reports from the events, and never adds to one.

A day whose events have changed is computed again as a whole. Runs find such days by the arrival of events, so late
ones are counted. Each run has a number, and no run replaces a day of a later one: repeated, concurrent, crashed or
stalled runs all end in the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from itertools import chain
from typing import Any

from bson.binary import Binary
from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession

from squinney.analytics.calendar import EARLIEST, LATEST, zone
from squinney.analytics.hits.increments import transact
from squinney.analytics.reports import queries
from squinney.analytics.reports.documents import DAYS, REQUESTS, RUNS, SITES, SiteSettings
from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.ranges import days_within, spans_of
from squinney.analytics.reports.requests import RequestsOfDay
from squinney.analytics.reports.sites import DEFAULTS
from squinney.analytics.reports.tally import tally
from squinney.analytics.reports.visit_sources import own_hosts_of
from squinney.analytics.rollups.rollups import OVERLAP_SECONDS, arrived_since
from squinney.clock import Clock, utcnow
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

SECONDS = 3_600
PART_BYTES = 8_000_000
RUN = {"_id": "reports"}
Wanted = dict[str, set[date]]  # days by site


@dataclass
class Computed:
    """What a run did. Days of which events may have been deleted are `frozen`: they stay as they are."""

    days: int = 0
    frozen: list[tuple[str, date]] = field(default_factory=list)
    moved: bool = False


class ReportDays:
    """The days of reports, per site and in the site's time zone."""

    def __init__(self, db: Db, *, clock: Clock = utcnow, overlap_seconds: int = OVERLAP_SECONDS) -> None:
        self._db = pinned(db)
        self._clock = clock
        self._overlap_seconds = overlap_seconds

    @operation(SECONDS)
    def update(self) -> Computed:
        """Compute the days with events that have arrived, and every day of a site whose settings were changed.

        Atomic: each day, with its requests, in a transaction; moving the watermark, if this is the latest run.
        After a crash: some days are newer than others; the next run computes them all.
        """
        with self._db.client.start_session(causal_consistency=True) as session:
            state, began = self._begin(session)
            stale = {settings["_id"]: settings for settings in queries.STALE_SITES.find(self._db, session=session)}
            arrived = arrived_since(state.get("watermark"), self._overlap_seconds)
            wanted = self._days_of(queries.hours_with_events(self._db, arrived, session), session)
            for site in stale:
                wanted[site] = self._all_days(site, session)
            done = self._compute(wanted, state["run"])
            for site, settings in stale.items():
                self._finish(site, settings, session)
            latest = {**RUN, "run": state["run"]}
            change = {"$set": {"watermark": began, "updated_at": self._clock()}}
            done.moved = self._db[RUNS].update_one(latest, change, session=session).matched_count == 1
        return done

    @operation(SECONDS)
    def rebuild(
        self, start: datetime | None = None, end: datetime | None = None, *, site: str | None = None
    ) -> Computed:
        """Compute the days of a time again, of one site or of all; also those whose events were forgotten.

        Atomic: as `update`; the watermark does not move.
        After a crash: some days are computed; call it again.
        """
        with self._db.client.start_session(causal_consistency=True) as session:
            state, _ = self._begin(session)
            names = [settings["_id"] for settings in queries.SITES_BY_NAME.find(self._db)] if site is None else [site]
            wanted = {name: self._all_days(name, session, start or EARLIEST, end or LATEST) for name in names}
            return self._compute(wanted, state["run"])

    def _begin(self, session: ClientSession) -> tuple[Document, Timestamp]:
        """Take the next run number; the cluster time of that write becomes the next watermark."""
        state: Any = self._db[RUNS].find_one_and_update(
            RUN, {"$inc": {"run": 1}}, upsert=True, return_document=True, session=session
        )
        began = session.operation_time
        assert began is not None
        return state, began

    def _settings(self, site: str, session: ClientSession) -> SiteSettings:
        """Return the settings of a site, which has some from its first event on."""
        settings: Any = self._db[SITES].find_one({"_id": site}, session=session) or self._db[SITES].find_one_and_update(
            {"_id": site}, {"$setOnInsert": DEFAULTS}, upsert=True, return_document=True, session=session
        )
        return settings  # type: ignore[no-any-return]

    def _days_of(self, hours: dict[str, set[datetime]], session: ClientSession) -> Wanted:
        wanted: Wanted = {}
        for site, times in hours.items():
            tz = zone(self._settings(site, session)["time_zone"])
            wanted[site] = set().union(*(days_within(hour, hour + queries.HOUR, tz) for hour in times))
        return wanted

    def _all_days(
        self, site: str, session: ClientSession, start: datetime = EARLIEST, end: datetime = LATEST
    ) -> set[date]:
        """Return the days of a site that have events or were computed before, between two times."""
        name = self._settings(site, session)["time_zone"]
        tz = zone(name)
        hours = queries.hours_with_events(self._db, queries.EVENTS_OF_SITE(site=site, start=start, end=end), session)
        first, last = start.astimezone(tz).date(), end.astimezone(tz).date()
        stored = queries.DAYS_OF_SITE.find(
            self._db, site=site, zone=name, first=first, last=last, projection={"_id": 1}, session=session
        )
        return {date.fromisoformat(day["_id"]["day"]) for day in stored}.union(*self._days_of(hours, session).values())

    def _compute(self, wanted: Wanted, run: int) -> Computed:
        done = Computed()
        kept_since = queries.all_kept_since(self._db, self._clock())
        with self._db.client.start_session() as session:
            for site in sorted(wanted):
                settings = self._settings(site, session)
                for day in sorted(wanted[site]):
                    if self._is_frozen(settings, day, kept_since):
                        done.frozen.append((site, day))
                    else:
                        self._compute_day(settings, day, run)
                        done.days += 1
        return done

    def _is_frozen(self, settings: SiteSettings, day: date, kept_since: datetime) -> bool:
        """Return whether the day was computed, and some of its events may have been deleted since."""
        day_id = queries.day_id(settings["_id"], settings["time_zone"], day)
        stored = self._db[DAYS].find_one({"_id": day_id}, {"forget_from": 1, "from": 1})
        # guard: a day of which events were deleted stays
        return stored is not None and queries.has_lost_events(stored, kept_since, self._clock())

    def _compute_day(self, settings: SiteSettings, day: date, run: int) -> None:
        site, zone_name = settings["_id"], settings["time_zone"]
        spans = spans_of(day, zone(zone_name))
        if not spans:
            return
        events = list(chain.from_iterable(queries.events_between(self._db, site, *span) for span in spans))
        requests = RequestsOfDay(spans[0][0], own_hosts_of(site, settings["own_hosts"])).add(events)
        summary = {
            "_id": queries.day_id(site, zone_name, day),
            "run": run,
            "from": spans[0][0],
            "people": tally(requests, Filters()).stored(),
            "robots": tally(requests, Filters(robots="only")).stored(),
        }
        if forgotten := [event["forget_at"] for event in events if "forget_at" in event]:
            summary["forget_from"] = min(forgotten)
        transact(self._db, partial(self._write, summary, requests.packed()))

    def _write(self, summary: Document, content: bytes, session: ClientSession) -> None:
        """Replace the day and its requests, unless a later run has computed it."""
        day = summary["_id"]
        stored = self._db[DAYS].find_one({"_id": day}, {"run": 1}, session=session)
        # guard: a day of a later run stays
        if stored is not None and stored["run"] > summary["run"]:
            return
        self._db[DAYS].replace_one({"_id": day}, summary, upsert=True, session=session)
        only = date.fromisoformat(day["day"])
        of_day = queries.REQUESTS_OF_SITE(site=day["site"], zone=day["zone"], first=only, last=only)
        self._db[REQUESTS].delete_many(of_day, session=session)
        self._db[REQUESTS].insert_many(list(_parts(day, content)), session=session)

    def _finish(self, site: str, settings: Document, session: ClientSession) -> None:
        """Drop the days of another time zone, and note that all days are computed with these settings."""
        for name in (DAYS, REQUESTS):
            others = queries.DAYS_IN_OTHER_ZONES(site=site, zone=settings["time_zone"])
            self._db[name].delete_many(others, session=session)
        # guard: settings that were changed meanwhile are still to be computed with
        unchanged = {"_id": site, "version": settings["version"]}
        self._db[SITES].update_one(unchanged, {"$set": {"stale": False}}, session=session)


def _parts(day: Document, content: bytes) -> Iterable[Document]:
    for number, start in enumerate(range(0, len(content), PART_BYTES)):
        yield {"_id": {**day, "part": number}, "content": Binary(content[start : start + PART_BYTES])}


def update_reports(db: Db) -> Counter[str]:
    """Compute the days of reports whose events have changed.

    Atomic: as `ReportDays.update`.
    After a crash: the next run continues.
    """
    done = ReportDays(db).update()
    return +Counter({"days": done.days, "frozen": len(done.frozen)})
