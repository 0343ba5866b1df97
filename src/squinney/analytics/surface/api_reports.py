"""The HTTP routes of reports: a site's numbers for a range of days, and each panel alone."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import AwareDatetime, BaseModel

from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.live import Now
from squinney.analytics.reports.reports import MAX_LIMIT, PanelRows, Report, Reports
from squinney.analytics.reports.tally import PANELS
from squinney.analytics.rules import MAX_SITE_LENGTH
from squinney.analytics.surface.report_choice import hosts_as_csv, panel_as_csv, parsed_filters
from squinney.http.dependencies import service
from squinney.http.error_responses import responses
from squinney.http.routes import OneThreadRoute

router = APIRouter(route_class=OneThreadRoute)

Read = Annotated[Reports, Depends(service("analytics", "reports", Reports))]
Site = Annotated[str, Query(max_length=MAX_SITE_LENGTH)]
Named = Annotated[Literal["today", "7d", "30d", "month", "year"], Query(description="Days that end today")]
First = Annotated[date | None, Query(alias="from", description="The first day, instead of a range by name")]
Last = Annotated[date | None, Query(alias="to", description="The last day, included")]
Robots = Annotated[Literal["out", "in", "only"], Query(description="Whether robots are counted")]
FilterBy = Annotated[
    list[str], Query(alias="filter", max_length=16, description="DIMENSION=VALUE", examples=[["browser=Firefox"]])
]
PanelName = Annotated[str, Path(examples=["pages"])]
Rows = Annotated[int, Query(ge=1, le=MAX_LIMIT)]


class Row(BaseModel):
    """A row of a panel; `amount` is what the panel names: views, bytes or milliseconds in all."""

    key: str
    visitors: int
    count: int
    amount: int


class Rest(BaseModel):
    """The sums of the rows that are not listed."""

    visitors: int
    count: int
    amount: int


class PanelOfReport(BaseModel):
    """The first rows of a panel, and what a click on one filters by."""

    name: str
    title: str
    dimension: str
    count: str
    amount: str
    rows: list[Row]
    others: Rest | None


class PointOfReport(BaseModel):
    """An hour, day or month of the chart."""

    at: AwareDatetime
    visitors: int
    visits: int
    views: int


class ReportOfSite(BaseModel):
    """The numbers of a site for a range of days; `before` are those of as many days just before."""

    site: str
    time_zone: str
    first: date
    last: date
    totals: dict[str, int]
    before: dict[str, int]
    unit: str
    chart: list[PointOfReport]
    panels: dict[str, PanelOfReport]
    updated_at: AwareDatetime | None


def panel_as_json(panel: PanelRows) -> dict[str, Any]:
    """Return a panel as the API and the command show it."""
    kind = PANELS[panel.name]
    return {
        "name": panel.name,
        "title": kind.title,
        "dimension": kind.dimension,
        "count": kind.counted,
        "amount": kind.amount,
        "rows": [_row(row) for row in panel.rows],
        "others": _row(panel.others) if panel.others else None,
    }


def _row(row: Any) -> dict[str, Any]:
    return {"key": row.key, "visitors": row.visitors, "count": row.count, "amount": row.amount}


def report_as_json(report: Report) -> dict[str, Any]:
    """Return a report as the API and the command show it."""
    return {
        "site": report.site,
        "time_zone": report.time_zone,
        "first": report.days.first,
        "last": report.days.last,
        "totals": report.totals,
        "before": report.before,
        "unit": report.unit,
        "chart": [point._asdict() for point in report.chart],
        "panels": {name: panel_as_json(panel) for name, panel in report.panels.items()},
        "updated_at": report.updated_at,
    }


@router.get("/report", response_model=ReportOfSite, responses=responses())
def read_report(
    reports: Read,
    site: Site = "",
    range: Named = "7d",
    first: First = None,
    last: Last = None,
    robots: Robots = "out",
    by: FilterBy = [],  # noqa: B006 - FastAPI copies it
    limit: Rows = 10,
) -> Any:
    """Return a site's numbers for a range of days: totals, the period before, a chart and the panels."""
    days = reports.days(site, range, first, last)
    return report_as_json(reports.read(site, days, Filters.of(parsed_filters(by), robots=robots), limit=limit))


class PageNow(BaseModel):
    """A page, and how many people viewed it last."""

    page: str
    visitors: int


class SiteNow(BaseModel):
    """The people on a site."""

    visitors: int
    pages: list[PageNow]


class StepOfFunnel(BaseModel):
    """A step of a funnel, and the visits that have come so far."""

    page: str
    visits: int
    visitors: int


class FunnelOfSite(BaseModel):
    """All visits, and those that have come to each step."""

    visits: int
    visitors: int
    steps: list[StepOfFunnel]


@router.get("/now", response_model=SiteNow, responses=responses())
def read_now(reports: Read, site: Site = "") -> Any:
    """Return who has viewed a page of a site in the last five minutes; robots are left out."""
    return now_as_json(reports.now(site))


def now_as_json(now: Now) -> dict[str, Any]:
    """Return who is on a site, as the API and the command show it."""
    pages = [{"page": page, "visitors": visitors} for page, visitors in now.pages]
    return {"visitors": now.visitors, "pages": pages}


@router.get("/funnel", response_model=FunnelOfSite, responses=responses())
def read_funnel(
    reports: Read,
    steps: Annotated[list[str], Query(alias="step", description="A path; * at its end stands for any rest")],
    site: Site = "",
    range: Named = "7d",
    first: First = None,
    last: Last = None,
    robots: Robots = "out",
    by: FilterBy = [],  # noqa: B006
) -> Any:
    """Return how many visits have come to up to five pages, one after the other. One page is a goal."""
    days = reports.days(site, range, first, last)
    return asdict(reports.funnel(site, steps, days, Filters.of(parsed_filters(by), robots=robots)))


class HostOfSite(BaseModel):
    """An address, its requests and page views, and when the last request came."""

    host: str
    requests: int
    views: int
    bytes: int
    last_seen: AwareDatetime


@router.get("/hosts", response_model=list[HostOfSite], responses=responses())
def read_hosts(
    reports: Read, site: Site = "", range: Named = "7d", first: First = None, last: Last = None, limit: Rows = 100
) -> Any:
    """Return the addresses with the most requests, robots included, of the events that are still kept."""
    return [asdict(host) for host in reports.hosts(site, reports.days(site, range, first, last), limit=limit)]


@router.get("/hosts.csv", response_class=Response, responses=responses())
def download_hosts(
    reports: Read, site: Site = "", range: Named = "7d", first: First = None, last: Last = None, limit: Rows = MAX_LIMIT
) -> Response:
    """Download the addresses as CSV."""
    return hosts_as_csv(reports.hosts(site, reports.days(site, range, first, last), limit=limit))


@router.get("/report/{panel}.csv", response_class=Response, responses=responses())
def download_panel(
    reports: Read,
    panel: PanelName,
    site: Site = "",
    range: Named = "7d",
    first: First = None,
    last: Last = None,
    robots: Robots = "out",
    by: FilterBy = [],  # noqa: B006
    limit: Rows = MAX_LIMIT,
) -> Response:
    """Download a panel as CSV."""
    days = reports.days(site, range, first, last)
    filters = Filters.of(parsed_filters(by), robots=robots)
    return panel_as_csv(reports.panel(site, panel, days, filters, limit=limit))


@router.get("/report/{panel}", response_model=PanelOfReport, responses=responses())
def read_panel(
    reports: Read,
    panel: PanelName,
    site: Site = "",
    range: Named = "7d",
    first: First = None,
    last: Last = None,
    robots: Robots = "out",
    by: FilterBy = [],  # noqa: B006
    limit: Rows = 100,
) -> Any:
    """Return the rows of one panel."""
    days = reports.days(site, range, first, last)
    return panel_as_json(reports.panel(site, panel, days, Filters.of(parsed_filters(by), robots=robots), limit=limit))
