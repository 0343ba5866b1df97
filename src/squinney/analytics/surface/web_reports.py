"""The page of a site's numbers: visitors, pages, sources, robots and devices, for a range of days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from starlette.responses import Response

from squinney.analytics.reports.filters import DIMENSIONS, ROBOTS, Filters
from squinney.analytics.reports.funnels import MAX_STEPS
from squinney.analytics.reports.ranges import NAMES
from squinney.analytics.reports.reports import ChartPoint, PanelRows, Report, Reports, Row
from squinney.analytics.reports.tally import CHARTED, PANELS
from squinney.analytics.rules import MAX_SITE_LENGTH
from squinney.analytics.surface.report_choice import ReportChoice, panel_as_csv, parsed_day
from squinney.analytics.surface.visibility import is_editor, require_visible, visible_sites
from squinney.http.access.callers import PageRoute
from squinney.http.charts import Bar, bar_chart, short
from squinney.http.dependencies import service
from squinney.http.pages import render

router = APIRouter(prefix="/analytics", route_class=PageRoute)

Read = Annotated[Reports, Depends(service("analytics", "reports", Reports))]
Site = Annotated[str | None, Query(max_length=MAX_SITE_LENGTH)]
Text = Annotated[str, Query(max_length=20)]

MAX_ADDRESS_LENGTH = 2_000
ROWS_ON_PAGE, ROWS_ALONE = 8, 500
# The columns of the page: pages, sources, and who they are. Panels are shown if they have rows, and two of them always.
COLUMNS = (
    ("pages", "entries", "exits"),
    (
        "channels",
        "referrers",
        "campaigns",
        "campaign_sources",
        "campaign_mediums",
        "countries",
        "statuses",
        "not_found",
    ),
    ("browsers", "systems", "devices", "robots", "reasons", "large", "slow"),
)
ALWAYS = ("pages", "channels")
LABELS = {"hour": "%H:%M", "day": "%d %b", "month": "%b %Y"}
ROBOT_TITLES = {"out": "without robots", "in": "with robots", "only": "only robots"}


@dataclass(frozen=True)
class Headline:
    """A number of the whole range, and how much it differs from the days before."""

    name: str
    value: str
    change: str
    measure: str = ""


@dataclass(frozen=True)
class Line:
    """A row of a panel, as it is shown."""

    key: str
    shown: str
    share: int
    number: str
    hint: str


def choice(
    request: Request,
    reports: Read,
    site: Site = None,
    range: Text = "",
    robots: Text = "out",
    chart: Text = CHARTED[0],
) -> ReportChoice:
    """Return what the visitor has chosen: by default this site, or the first one, and seven days."""
    chosen = site if site is not None else _first_site(request, reports)
    require_visible(request, reports, chosen)
    return choice_of(request, reports, chosen, range, robots, chart)


def choice_of(
    request: Request, reports: Reports, chosen: str, range: str, robots: str, chart: str, *, token: str = ""
) -> ReportChoice:
    """Return what the visitor has chosen of a site."""
    asked = request.query_params
    first, last = parsed_day(asked.get("from"), "from"), parsed_day(asked.get("to"), "to")
    named = "" if first or last else (range or "7d")
    days = reports.days(chosen, named, first, last)
    filters = Filters.of({name: asked[name] for name in DIMENSIONS if asked.get(name)}, robots=robots)
    return ReportChoice(chosen, named, days, filters, chart if chart in CHARTED else CHARTED[0], token)


def _first_site(request: Request, reports: Reports) -> str:
    own, sites = getattr(request.app.state, "own_site", None), visible_sites(request, reports, reports.sites())
    return own if own in sites else next(iter(sites), own or "")


Chosen = Annotated[ReportChoice, Depends(choice)]


@router.get("", response_class=HTMLResponse)
def show_report(request: Request, reports: Read, chosen: Chosen) -> Response:
    """Show the numbers of a site."""
    return report_page(request, reports, chosen, visible_sites(request, reports, reports.sites()))


def report_page(request: Request, reports: Reports, chosen: ReportChoice, sites: list[str]) -> Response:
    """Return the page of the numbers of a site; `sites` are those to choose from."""
    report = reports.read(chosen.site, chosen.days, chosen.filters, limit=ROWS_ON_PAGE)
    last = reports.last_day(chosen.site)
    return render(
        request,
        "analytics/report.html",
        chosen=chosen,
        report=report,
        sites=sites if chosen.site in sites or not sites else [chosen.site, *sites],
        ranges=NAMES,
        robots={name: ROBOT_TITLES[name] for name in ROBOTS},
        headlines=headlines(report),
        chart=_drawn(report, chosen.chart),
        columns=[[_shown(report.panels[name]) for name in column if _is_shown(report, name)] for column in COLUMNS],
        stale=last if last and last < chosen.days.first else None,
        week_before=last - timedelta(days=6) if last else None,
        now=reports.now(chosen.site),
        is_editor=not chosen.token and is_editor(request),
    )


@router.get("/now", response_class=HTMLResponse)
def show_now(request: Request, reports: Read, chosen: Chosen) -> Response:
    """Return who is on the site, which the page's script requests to update it."""
    return render(request, "analytics/now.html", now=reports.now(chosen.site), chosen=chosen)


@router.get("/view")
def report_view(
    request: Request,
    page: Annotated[str, Query(max_length=MAX_ADDRESS_LENGTH)],
    referrer: Annotated[str, Query(max_length=MAX_ADDRESS_LENGTH)] = "",
) -> Response:
    """Count the view of a page that a cache has answered; `tracker.js` on the page reports it.

    Only a page of this site is heard. The script takes no cookie: a visitor is known by the hash of a day.
    """
    report = getattr(request.app.state, "report_view", None)
    # guard: a page of another site reports nothing
    if report and request.headers.get("sec-fetch-site", "same-origin") == "same-origin":
        report(request.scope, page, referrer)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


@router.get("/funnel", response_class=HTMLResponse)
def show_funnel(
    request: Request,
    reports: Read,
    chosen: Chosen,
    step: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006
) -> Response:
    """Show how many visits have come to pages, one after the other."""
    steps = [page for page in step if page]
    funnel = reports.funnel(chosen.site, steps, chosen.days, chosen.filters) if steps else None
    rows = [(page, share(page.visits, funnel.visits)) for page in funnel.steps] if funnel else []
    fields = [*steps, *[""] * (MAX_STEPS - len(steps))]
    return render(request, "analytics/funnel.html", chosen=chosen, funnel=funnel, rows=rows, fields=fields)


def share(part: int, whole: int) -> float:
    """Return a part in percent."""
    return part / whole * 100 if whole else 0


@router.get("/panels/{name}.csv")
def download_panel(reports: Read, chosen: Chosen, name: str) -> Response:
    """Download a panel as CSV."""
    return panel_as_csv(reports.panel(chosen.site, name, chosen.days, chosen.filters, limit=1_000))


@router.get("/panels/{name}", response_class=HTMLResponse)
def show_panel(request: Request, reports: Read, chosen: Chosen, name: str) -> Response:
    """Show more rows of one panel."""
    return panel_page(request, reports, chosen, name)


def panel_page(request: Request, reports: Reports, chosen: ReportChoice, name: str) -> Response:
    """Return the page of one panel."""
    panel = reports.panel(chosen.site, name, chosen.days, chosen.filters, limit=ROWS_ALONE)
    return render(request, "analytics/panel.html", chosen=chosen, panel=_shown(panel))


def headlines(report: Report) -> list[Headline]:
    """Return the numbers at the head of the page."""
    now, before = report.totals, report.before
    return [
        *(
            Headline(title, short(now[name]), changed(now[name], before[name]), name)
            for name, title in (("visitors", "visitors"), ("visits", "visits"), ("views", "page views"))
        ),
        Headline("bounce rate", f"{share(now['bounces'], now['visits']):.0f}%", _by_points(now, before)),
        Headline("visit duration", span(_mean(now)), changed(_mean(now), _mean(before))),
        Headline("bandwidth", f"{short(now['bytes'])}B", changed(now["bytes"], before["bytes"])),
    ]


def changed(now: float, before: float) -> str:
    """Return the change in percent; empty where there is nothing to compare with."""
    if not before:
        return ""
    percent = (now - before) / before * 100
    return "±0%" if abs(percent) < 0.5 else f"{percent:+,.0f}%"


def _by_points(now: dict[str, int], before: dict[str, int]) -> str:
    if not before["visits"] or not now["visits"]:
        return ""
    return f"{share(now['bounces'], now['visits']) - share(before['bounces'], before['visits']):+.0f} points"


def _mean(totals: dict[str, int]) -> float:
    return totals["seconds"] / totals["visits"] if totals["visits"] else 0


def span(seconds: float) -> str:
    """Format a duration: `42s`, `3m 20s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest}s" if minutes else f"{rest}s"


def _drawn(report: Report, measure: str) -> Markup:
    title = f"{measure.capitalize()} by {report.unit}"
    return bar_chart([_bar(point, report.unit, measure) for point in report.chart], title=title)


def _bar(point: ChartPoint, unit: str, measure: str) -> Bar:
    at = f"{point.at:%a %d %b %Y %H:%M}" if unit == "hour" else f"{point.at:%a %d %b %Y}"
    hint = f"{at}: {point.visitors:,} visitors, {point.visits:,} visits, {point.views:,} views"
    return Bar(f"{point.at:{LABELS[unit]}}", getattr(point, measure), hint)


def _is_shown(report: Report, name: str) -> bool:
    return bool(report.panels[name].rows) or name in ALWAYS


def _shown(panel: PanelRows) -> dict[str, Any]:
    kind = PANELS[panel.name]
    largest = max((_measure(panel.name, row) for row in panel.rows), default=0) or 1
    others = _number(panel.name, panel.others) if panel.others else ""
    lines = [_line(panel.name, row, largest) for row in panel.rows]
    return {"name": panel.name, "kind": kind, "head": _head(panel.name), "lines": lines, "others": others}


def _head(name: str) -> str:
    return {"large": "bytes", "slow": "mean time"}.get(name, PANELS[name].counted)


def _measure(name: str, row: Row) -> float:
    if name == "slow":
        return row.amount / max(1, row.count)
    return row.amount if name == "large" else row.count


def _number(name: str, row: Row) -> str:
    value = _measure(name, row)
    return {"large": f"{short(value)}B", "slow": f"{value / 1000:.2f} s"}.get(name, f"{row.count:,}")


def _line(name: str, row: Row, largest: float) -> Line:
    kind, value = PANELS[name], _measure(name, row)
    hint = f"{row.visitors:,} visitors, {row.count:,} {kind.counted}, {row.amount:,} {kind.amount}"
    return Line(row.key, row.key or "(none)", max(1, round(value / largest * 100)), _number(name, row), hint)
