"""The pages of hits: live charts, top pages, status codes, roll-ups and rejects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from pydantic import AwareDatetime
from starlette.responses import Response

from squinney.analytics import EventLog, Hits, Point, Reports, Rollups
from squinney.analytics.calendar import EARLIEST, LATEST, STEPS, zone
from squinney.analytics.hits.documents import MAX_PAGE_LENGTH
from squinney.analytics.rules import MAX_SITE_LENGTH
from squinney.analytics.surface import web_goals, web_hosts, web_reports, web_shares
from squinney.analytics.surface.api import series_as_csv
from squinney.analytics.surface.visibility import hidden_sites, require_visible, visible_sites
from squinney.clock import utcnow
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import needs
from squinney.http.charts import Bar, bar_chart, short
from squinney.http.dependencies import service
from squinney.http.pages import render

router = APIRouter(route_class=PageRoute)
charts = APIRouter(prefix="/analytics", route_class=PageRoute)

Log = Annotated[EventLog, Depends(service("analytics", "events", EventLog))]
Counters = Annotated[Hits, Depends(service("analytics", "hits", Hits))]
PageBytes = Annotated[Rollups, Depends(service("analytics", "page_bytes", Rollups))]
Unit = Literal["minute", "hour", "day", "month"]
Site = Annotated[str | None, Query(max_length=MAX_SITE_LENGTH)]
PageName = Annotated[str | None, Query(max_length=MAX_PAGE_LENGTH)]
Until = Annotated[AwareDatetime | None, Query(ge=EARLIEST, lt=LATEST)]
Zone = Annotated[str, Query(max_length=100)]


@dataclass(frozen=True)
class Chart:
    """A chart of a number of units, of which the current one is the last."""

    unit: Unit
    title: str
    units: int
    label: str


CHARTS = [
    Chart("minute", "Hits in the last hour, by minute", 60, "%H:%M"),
    Chart("hour", "Hits in the last day, by hour", 24, "%H:00"),
    Chart("day", "Hits in the last 30 days", 30, "%d %b"),
    Chart("month", "Hits in the last 12 months", 12, "%b"),
]
RANGES = {1: "1 day", 7: "7 days", 30: "30 days", 365: "1 year"}


@dataclass(frozen=True)
class Selection:
    """The visitor's selection: site, page (None for all pages together), time and time zone."""

    site: str
    page: str | None
    until: datetime | None
    time_zone: str
    days: int

    @property
    def now(self) -> datetime:
        """The time at which all charts end."""
        return self.until or utcnow()

    @property
    def page_name(self) -> str:
        """The page's name in titles."""
        return "all pages" if self.page is None else self.page or "the page without a name"

    def hours(self) -> tuple[datetime, datetime]:
        """Return the start and end of the chosen days, up to the end of the current hour."""
        end = self.now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return end - timedelta(days=self.days), end

    def query(self, **more: Any) -> str:
        """Return the URL query for this selection, with some values replaced; None removes a value."""
        values = {"site": self.site, "page": self.page, "time_zone": self.time_zone, "days": self.days, **more}
        if values["page"] == "":
            values["unnamed"] = "true"
        if self.until and "until" not in more:
            values["until"] = self.until.isoformat()
        return urlencode({name: value for name, value in values.items() if value is not None})


def choice(
    request: Request,
    hits: Counters,
    reports: web_reports.Read,
    site: Site = None,
    page: PageName = None,
    unnamed: bool = False,
    until: Until = None,
    time_zone: Zone = "UTC",
    days: Annotated[int, Query(ge=1, le=3_660)] = 7,
) -> Selection:
    """Return the visitor's selection, by default all pages of this site, or of the first one if this has no counts.

    An empty field of the form means all pages; `unnamed` selects the page whose name is empty.
    """
    chosen = site if site is not None else _first_site(request, reports, hits)
    require_visible(request, reports, chosen)
    return Selection(chosen, page or ("" if unnamed else None), until, time_zone, days)


def _first_site(request: Request, reports: Reports, hits: Hits) -> str:
    own: str | None = getattr(request.app.state, "own_site", None)
    return own if own is not None else next(iter(visible_sites(request, reports, hits.sites())), "")


Chosen = Annotated[Selection, Depends(choice)]


@charts.get("/hits", response_class=HTMLResponse)
def show_hits(
    request: Request, log: Log, hits: Counters, reports: web_reports.Read, rollups: PageBytes, chosen: Chosen
) -> Response:
    """Show the charts of the hits of a site's page, as they happen."""
    start, end = chosen.hours()
    hidden = hidden_sites(request, reports)
    last = None if chosen.until else hits.last_day(chosen.site)
    stale = last if last and last < chosen.now - timedelta(days=chosen.days) else None
    return render(
        request,
        "analytics/hits.html",
        chosen=chosen,
        sites=_choices(visible_sites(request, reports, hits.sites()), chosen.site),
        ranges=RANGES,
        charts=[(chart, _drawn(hits, chosen, chart), _csv_query(chosen, chart)) for chart in CHARTS],
        stale=stale + timedelta(days=1) if stale else None,
        total=_total(hits, chosen),
        imports=[source for source in log.imports(limit=10).items if source.get("site") not in hidden],
        top=hits.top_pages(chosen.site, start, end, limit=10),
        statuses=log.count_by_status(start, end, site=chosen.site),
        rollup=_rollup_chart(rollups, chosen),
    )


def _choices(sites: list[str], chosen: str) -> list[str]:
    """Return the sites to choose from, with the selected one, which may be missing from the list."""
    return sites if chosen in sites or not sites else [chosen, *sites]


@charts.get("/charts/{unit}", response_class=HTMLResponse)
def show_chart(hits: Counters, chosen: Chosen, unit: Unit) -> Response:
    """Return one chart, which the page's script requests to update it."""
    chart = next(chart for chart in CHARTS if chart.unit == unit)
    return HTMLResponse(_drawn(hits, chosen, chart), headers={"Cache-Control": "no-store"})


@charts.get("/top", response_class=HTMLResponse)
def show_top(request: Request, hits: Counters, chosen: Chosen) -> Response:
    """Return the table of top pages, which the page's script requests to update it."""
    top = hits.top_pages(chosen.site, *chosen.hours(), limit=10)
    return render(request, "analytics/top.html", top=top, chosen=chosen)


@charts.get("/imports/{source}", response_class=HTMLResponse, dependencies=[needs("editor")])
def show_rejects(request: Request, log: Log, source: str, cursor: str | None = None) -> Response:
    """Show a source's rejected lines and the reasons; only for editors, since a log may contain private data."""
    page = log.rejects(source, cursor=cursor, limit=50)
    return render(request, "analytics/rejects.html", page=page, source=source)


def _total(hits: Hits, chosen: Selection) -> int:
    start, end = chosen.hours()
    if chosen.page is None:
        return hits.site_total(chosen.site, start, end)
    return sum(point.hits for point in hits.hours(chosen.site, chosen.page, start, end))


def _bounds(chosen: Selection, chart: Chart) -> tuple[datetime, datetime]:
    """Return a time within the chart's first unit and the chart's end; months are counted, as their lengths differ."""
    end = chosen.now + timedelta(milliseconds=1)
    before = chart.units - 1
    if chart.unit != "month":
        return chosen.now - before * STEPS[chart.unit], end
    local = chosen.now.astimezone(zone(chosen.time_zone))
    year, month = divmod(local.year * 12 + local.month - 1 - before, 12)
    return datetime(year, month + 1, 1, tzinfo=local.tzinfo), end


def _drawn(hits: Hits, chosen: Selection, chart: Chart) -> Markup:
    start, end = _bounds(chosen, chart)
    points = hits.series(chosen.site, chosen.page, start, end, chart.unit, time_zone=chosen.time_zone)
    return bar_chart([_bar(point, chart) for point in points], title=f"{chart.title}, {chosen.page_name}")


def _bar(point: Point, chart: Chart) -> Bar:
    return Bar(f"{point.at:{chart.label}}", point.hits, f"{point.at:%a %d %b %Y %H:%M}: {point.hits:,} hits")


def _csv_query(chosen: Selection, chart: Chart) -> str:
    start, end = _bounds(chosen, chart)
    return chosen.query(by=chart.unit, start=start.isoformat(), end=end.isoformat())


def _rollup_chart(rollups: Rollups, chosen: Selection) -> Markup:
    if chosen.page is None:
        return Markup("")
    start, end = chosen.hours()
    buckets = rollups.read(
        "daily", {"site": chosen.site, "path": chosen.page}, start.replace(hour=0) - timedelta(days=1), end
    )
    bars = [
        Bar(
            f"{bucket['at']:%d %b}",
            bucket["total"],
            f"{bucket['at']:%a %d %b}: {short(bucket['total'])} bytes in {bucket['count']:,} requests,"
            f" {short(bucket['mean'])} each, from {short(bucket['min'])} to {short(bucket['max'])}",
        )
        for bucket in buckets
    ]
    return bar_chart(bars, title="Bytes by day") if bars else Markup("")


@charts.get("/series.csv")
def download(hits: Counters, chosen: Chosen, by: Unit, start: AwareDatetime, end: AwareDatetime) -> Response:
    """Download the values of a chart as CSV."""
    points = hits.series(chosen.site, chosen.page, start, end, by, time_zone=chosen.time_zone)
    return series_as_csv(points, by)


router.include_router(web_reports.router)
router.include_router(web_hosts.router)
router.include_router(web_goals.router)
router.include_router(web_goals.editing)
router.include_router(web_shares.router)
router.include_router(web_shares.editing)
router.include_router(charts)
