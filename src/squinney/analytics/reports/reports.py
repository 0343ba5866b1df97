"""`Reports`: reads the numbers of a site for a range of days."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from squinney import checks
from squinney.analytics.calendar import EARLIEST, LATEST, zone
from squinney.analytics.reports import queries
from squinney.analytics.reports.documents import RUNS, SITES
from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.funnels import Funnel, FunnelStep, checked_steps
from squinney.analytics.reports.goals import Conversions, Goals, Reached
from squinney.analytics.reports.hosts import Host, hosts_of
from squinney.analytics.reports.live import NOW, Now, now_of
from squinney.analytics.reports.ranges import Days, spans_of
from squinney.analytics.reports.requests import Requests
from squinney.analytics.reports.tally import CHARTED, PANELS, ROBOT_PANELS, TOTALS, Tally, rank, tally
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

MAX_LIMIT = 1_000
MAX_HOURLY_DAYS, MAX_DAILY_DAYS = 2, 92
MAX_SITES = 1_000
KEPT_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a panel. What `count` and `amount` are, the panel says; `visitors` are the sum of the daily ones."""

    key: str
    visitors: int
    count: int
    amount: int


@dataclass(frozen=True)
class PanelRows:
    """The first rows of a panel; `others` are the sums of all further ones, of which `more` are known."""

    name: str
    rows: list[Row]
    others: Row | None
    more: int


class ChartPoint(NamedTuple):
    """An hour, a day or a month of the chart, and the numbers in it."""

    at: datetime
    visitors: int
    visits: int
    views: int


@dataclass(frozen=True)
class Report:
    """The numbers of a range, those of as many days before, the chart and the panels."""

    site: str
    time_zone: str
    days: Days
    filters: Filters
    totals: dict[str, int]
    before: dict[str, int]
    unit: str
    chart: list[ChartPoint]
    panels: dict[str, PanelRows]
    updated_at: datetime | None


class Reports:
    """The reports of all sites, as of the last `ReportDays.update`.

    Without filters the numbers are sums of stored days; with filters they are counted from the requests of each day.
    """

    def __init__(self, db: Db, *, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._clock = clock
        self._now: dict[str, tuple[float, Now]] = {}

    @operation(reads_only=True)
    def sites(self) -> list[str]:
        """Return the names of the sites that have reports, at most a thousand."""
        return [
            settings["_id"] for settings in queries.SITES_BY_NAME.find(self._db, limit=MAX_SITES, projection={"_id": 1})
        ]

    @operation(reads_only=True)
    def private_sites(self) -> set[str]:
        """Return the names of the sites whose reports are for editors only."""
        return {settings["_id"] for settings in queries.PRIVATE_SITES.find(self._db, projection={"_id": 1})}

    @operation(reads_only=True)
    def time_zone(self, site: str) -> str:
        """Return the time zone in which a site's days begin."""
        settings = self._db[SITES].find_one({"_id": site}, {"time_zone": 1})
        return str(settings["time_zone"]) if settings else "UTC"

    @operation(reads_only=True)
    def today(self, site: str) -> date:
        """Return the date of today in the site's time zone."""
        return self._clock().astimezone(zone(self.time_zone(site))).date()

    @operation(reads_only=True)
    def days(self, site: str, name: str = "7d", first: date | None = None, last: date | None = None) -> Days:
        """Return the range from `first` to `last`, or the named one that ends today in the site's time zone.

        Raises: `Invalid`.
        """
        if first is None and last is None:
            return Days.of(name, self.today(site))
        last = last or max(first or date.min, self.today(site))
        return Days.between(first or last, last)

    @operation(reads_only=True)
    def last_day(self, site: str) -> date | None:
        """Return the last day of which there are numbers."""
        days: dict[str, Any] = {"first": EARLIEST.date(), "last": LATEST.date()}
        day = queries.LAST_DAY.find_one(self._db, site=site, zone=self.time_zone(site), projection={"_id": 1}, **days)
        return date.fromisoformat(day["_id"]["day"]) if day else None

    @operation(60, reads_only=True)
    def read(self, site: str, days: Days, filters: Filters = Filters(), *, limit: int = 10) -> Report:  # noqa: B008
        """Return the report of a site for a range of days, with the first `limit` rows of each panel.

        Raises: `Invalid`.
        """
        checks.integer(limit, "limit", minimum=1, maximum=MAX_LIMIT)
        name = self.time_zone(site)
        whole, by_day = self._counted(site, name, days, filters)
        before, _ = self._counted(site, name, days.before(), filters, panels=())
        unit, chart = _chart(by_day, days, name)
        state: Mapping[str, Any] = self._db[RUNS].find_one({"_id": "reports"}) or {}
        return Report(
            site,
            name,
            days,
            filters,
            _totals(whole),
            _totals(before),
            unit,
            chart,
            {panel: _panel(whole, panel, limit) for panel in PANELS},
            state.get("updated_at"),
        )

    @operation(60, reads_only=True)
    def panel(
        self,
        site: str,
        name: str,
        days: Days,
        filters: Filters = Filters(),  # noqa: B008
        *,
        limit: int = 100,
    ) -> PanelRows:
        """Return the first rows of one panel.

        Raises: `Invalid`.
        """
        if name not in PANELS:
            raise Invalid(f"panel must be one of {', '.join(PANELS)}", field="panel")
        checks.integer(limit, "limit", minimum=1, maximum=MAX_LIMIT)
        whole, _ = self._counted(site, self.time_zone(site), days, filters, panels=(name,))
        return _panel(whole, name, limit)

    @operation(60, reads_only=True)
    def funnel(
        self,
        site: str,
        steps: Sequence[str],
        days: Days,
        filters: Filters = Filters(),  # noqa: B008
    ) -> Funnel:
        """Return how many visits have come to each of up to five pages, one after the other, within the visit.

        Raises: `Invalid`.
        """
        funnel = Funnel(steps=[FunnelStep(page) for page in checked_steps(steps)])
        for _, requests in self._requests(site, self.time_zone(site), days):
            funnel.add(requests, filters)
        return funnel

    @operation(60, reads_only=True)
    def conversions(
        self,
        site: str,
        days: Days,
        filters: Filters = Filters(),  # noqa: B008
    ) -> Conversions:
        """Return how many visits have reached each goal of the site."""
        goals = [Reached(goal["_id"]["name"], goal["pages"]) for goal in Goals(self._db).of(site)]
        conversions = Conversions(goals=goals)
        for _, requests in self._requests(site, self.time_zone(site), days):
            conversions.add(requests, filters)
        return conversions

    @operation(60, reads_only=True)
    def hosts(self, site: str, days: Days, *, limit: int = 100) -> list[Host]:
        """Return the addresses with the most requests, robots included, of the events that are still kept.

        Raises: `Invalid`.
        """
        checks.integer(limit, "limit", minimum=1, maximum=MAX_LIMIT)
        return hosts_of(self._db, site, days, zone(self.time_zone(site)), limit)

    @operation(reads_only=True)
    def now(self, site: str) -> Now:
        """Return who is on the site: the people who have viewed a page in the last five minutes, and which one.

        A site's answer is kept for some seconds, as many visitors may ask for it.
        """
        known = self._now.get(site)
        if known and time.monotonic() < known[0]:
            return known[1]
        at = self._clock()
        now = now_of(queries.events_between(self._db, site, at - NOW, at + NOW), at - NOW)
        if len(self._now) >= MAX_SITES:
            self._now.clear()
        self._now[site] = time.monotonic() + KEPT_SECONDS, now
        return now

    def _counted(
        self, site: str, name: str, days: Days, filters: Filters, *, panels: Sequence[str] = tuple(PANELS)
    ) -> tuple[Tally, dict[date, Tally]]:
        """Return the numbers of the whole range, and those of each day that has any, without panels."""
        whole, by_day = Tally(), {}
        if not filters.are_none:
            for day, requests in self._requests(site, name, days):
                by_day[day] = counted = tally(requests, filters, with_panels=bool(panels))
                whole.add(counted)
                counted.panels.clear()
            return whole, by_day
        arguments: dict[str, Any] = {"site": site, "zone": name, "first": days.first, "last": days.last}
        for stored in queries.DAYS_OF_SITE.find(self._db, projection=_fields(filters, panels), **arguments):
            by_day[date.fromisoformat(stored["_id"]["day"])] = counted = Tally(panels={})
            for part, wanted in _classes(filters, panels).items():
                counted.add_stored(stored[part], panels=())
                whole.add_stored(stored[part], panels=wanted)
        return whole, by_day

    def _requests(self, site: str, name: str, days: Days) -> Iterator[tuple[date, Requests]]:
        """Yield the requests of each day, from one snapshot, since a day may have several parts."""
        arguments: dict[str, Any] = {"site": site, "zone": name, "first": days.first, "last": days.last}
        with self._db.client.start_session(snapshot=True) as session:
            parts = queries.REQUESTS_OF_SITE.find(self._db, session=session, **arguments)
            for day, of_day in groupby(parts, key=lambda part: part["_id"]["day"]):
                yield date.fromisoformat(day), Requests.unpacked(b"".join(part["content"] for part in of_day))


def _classes(filters: Filters, panels: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the parts of a stored day that are counted, and the panels of each; both have those of all robots."""
    if filters.robots != "in":
        return {"people" if filters.robots == "out" else "robots": panels}
    return {"people": [name for name in panels if name not in ROBOT_PANELS], "robots": panels}


def _fields(filters: Filters, panels: Sequence[str]) -> Document:
    """Return the projection of what is needed, since the rows of a year's days are long."""
    needed = ["totals", "hours", "others", *(f"panels.{name}" for name in panels)]
    return {f"{part}.{name}": 1 for part in _classes(filters, panels) for name in needed}


def _totals(counted: Tally) -> dict[str, int]:
    return {name: counted.totals[name] for name in TOTALS}


def _panel(counted: Tally, name: str, limit: int) -> PanelRows:
    ranked = sorted(counted.panels[name].items(), key=rank(name))
    rows = [Row(key, *numbers) for key, numbers in ranked[:limit]]
    rest = [numbers for _, numbers in ranked[limit:]]
    if name in counted.others:
        rest.append(counted.others[name])
    others = Row("", *(sum(column) for column in zip(*rest, strict=True))) if rest else None
    return PanelRows(name, rows, others, max(0, len(ranked) - limit))


def _chart(by_day: Mapping[date, Tally], days: Days, name: str) -> tuple[str, list[ChartPoint]]:
    """Return the unit of the chart and its points, empty ones included."""
    tz = zone(name)
    if days.count <= MAX_HOURLY_DAYS:
        return "hour", [point for day in days for point in _hours(day, by_day.get(day, Tally()), name)]
    sums: dict[date, list[int]] = {}
    unit = "day" if days.count <= MAX_DAILY_DAYS else "month"
    for day in days:
        at = day if unit == "day" else day.replace(day=1)
        row = sums.setdefault(at, [0, 0, 0])
        counted = by_day.get(day)
        if counted:
            sums[at] = [number + counted.totals[name] for number, name in zip(row, CHARTED, strict=True)]
    return unit, [ChartPoint(datetime(at.year, at.month, at.day, tzinfo=tz), *row) for at, row in sums.items()]


def _hours(day: date, counted: Tally, name: str) -> Iterator[ChartPoint]:
    """Yield the hours since the day's beginning; a day with a change of the clocks has more or fewer than 24."""
    spans = spans_of(day, zone(name))
    if not spans:
        return
    start, end = spans[0][0], spans[-1][1]
    number = 0
    while (at := start + timedelta(hours=number)) < end:
        yield ChartPoint(at.astimezone(zone(name)), *(counted.hours[charted][number] for charted in CHARTED))
        number += 1
