"""The commands `squinney analytics report` and `report-site`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from squinney.analytics import Filters, Goals, ReportDays, Reports, ReportSites, Shares
from squinney.analytics.reports.documents import Share
from squinney.analytics.reports.filters import DIMENSIONS
from squinney.analytics.reports.reports import PanelRows, Report
from squinney.analytics.reports.tally import PANELS
from squinney.analytics.surface.api_goals import conversions_as_json, goal_as_json
from squinney.analytics.surface.api_reports import now_as_json, panel_as_json, report_as_json
from squinney.analytics.surface.cli_logs import database
from squinney.analytics.surface.report_choice import csv_of, csv_of_hosts, parsed_filters
from squinney.analytics.surface.web_reports import headlines
from squinney.analytics.surface.web_reports import share as percentage
from squinney.cli.parameters import Json, Limit
from squinney.cli.printing import print_line, print_result
from squinney.clock import utcnow
from squinney.errors import Invalid

PanelArgument = Annotated[
    str | None, typer.Argument(metavar="[PANEL]", help=f"One of {', '.join(PANELS)}; default: the most important ones.")
]
OneSite = Annotated[str | None, typer.Option("--site", help="The site; optional if there is only one.")]
RangeOption = Annotated[str, typer.Option("--range", help="today, 7d, 30d, month or year.")]
First = Annotated[datetime | None, typer.Option("--from", formats=["%Y-%m-%d"], help="The first day.")]
Last = Annotated[datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="The last day, included.")]
Robots = Annotated[str, typer.Option("--robots", help="out, in or only.")]
FilterOption = Annotated[
    list[str] | None,
    typer.Option("--filter", metavar="DIMENSION=VALUE", help=f"May be repeated: {', '.join(DIMENSIONS)}."),
]
SHOWN = ("pages", "referrers", "browsers", "not_found", "robots")


def report(
    context: typer.Context,
    panel: PanelArgument = None,
    site: OneSite = None,
    range: RangeOption = "7d",
    first: First = None,
    last: Last = None,
    filters: FilterOption = None,
    robots: Robots = "out",
    limit: Limit = 10,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the panel as CSV.")] = False,
    as_json: Json = False,
) -> None:
    """Compute what has changed, and show a site's visitors, pages, sources and robots for a range of days."""
    if as_csv and panel is None:
        raise Invalid(f"--csv needs a panel: {', '.join(PANELS)}", field="panel")
    chosen = Filters.of(parsed_filters(filters or []), robots=robots)
    with database(context) as db:
        ReportDays(db).update()
        reports = Reports(db)
        name = _site_or_only(reports, site)
        days = reports.days(name, range, first.date() if first else None, last.date() if last else None)
        if panel is None:
            whole = reports.read(name, days, chosen, limit=limit)
            print_result(report_as_json(whole), _text(whole), as_json)
            return
        rows = reports.panel(name, panel, days, chosen, limit=limit)
    if as_csv:
        print_line(csv_of(rows, line_end="\n").rstrip())
        return
    print_result(panel_as_json(rows), "\n".join(_lines(rows)), as_json)


def _site_or_only(reports: Reports, site: str | None) -> str:
    """Return the given site, or else the only one that has reports."""
    if site is not None:
        return site
    sites = reports.sites()
    if len(sites) > 1:
        names = ", ".join(site_name or "''" for site_name in sites[:20])
        raise Invalid(f"choose one of the sites with --site: {names}", field="site")
    return sites[0] if sites else ""


def _text(whole: Report) -> str:
    head = f"{whole.site or 'the site without a name'}, {whole.days.first} to {whole.days.last} ({whole.time_zone})"
    numbers = [f"{headline.value:>10}  {headline.name}  {headline.change}".rstrip() for headline in headlines(whole)]
    return "\n".join([head, *numbers, *(line for name in SHOWN for line in _section(whole.panels[name]))])


def _section(panel: PanelRows) -> list[str]:
    return ["", f"{PANELS[panel.name].title}:", *_lines(panel)] if panel.rows else []


def _lines(panel: PanelRows) -> list[str]:
    rows = [f"{row.count:>10,}  {row.visitors:>8,}  {row.key or '(none)'}" for row in panel.rows]
    others = [f"{panel.others.count:>10,}  {panel.others.visitors:>8,}  others"] if panel.others else []
    return [f"{PANELS[panel.name].counted:>10}  visitors", *rows, *others]


def report_site(
    context: typer.Context,
    site: Annotated[str, typer.Argument(help="The site.")],
    time_zone: Annotated[str | None, typer.Option("--time-zone", help="The time zone in which its days begin.")] = None,
    own_hosts: Annotated[
        list[str] | None, typer.Option("--own-host", help="A host that is no source; may be repeated.")
    ] = None,
    private: Annotated[
        bool | None, typer.Option("--private/--public", help="Whether its pages are for editors only.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how a site is reported, or change it; its days are then computed again."""
    with database(context) as db:
        sites = ReportSites(db)
        if private is not None:
            sites.set_private(site, private)
        if time_zone is not None or own_hosts is not None:
            sites.change(site, time_zone=time_zone, own_hosts=own_hosts)
            ReportDays(db).update()
        settings = sites.settings(site)
    shown: dict[str, Any] = {name: settings[name] for name in ("time_zone", "own_hosts", "is_private")}
    hosts = ", ".join(settings["own_hosts"]) or "none but its name"
    line = f"{site}: days in {settings['time_zone']}; own hosts: {hosts}{'; private' if settings['is_private'] else ''}"
    print_result({"site": site, **shown}, line, as_json)


def funnel(
    context: typer.Context,
    steps: Annotated[list[str], typer.Argument(metavar="PAGE...", help="Up to five; * at the end is any rest.")],
    site: OneSite = None,
    range: RangeOption = "7d",
    first: First = None,
    last: Last = None,
    filters: FilterOption = None,
    robots: Robots = "out",
    as_json: Json = False,
) -> None:
    """Show how many visits have come to pages, one after the other; one page is a goal."""
    chosen = Filters.of(parsed_filters(filters or []), robots=robots)
    with database(context) as db:
        ReportDays(db).update()
        reports = Reports(db)
        name = _site_or_only(reports, site)
        days = reports.days(name, range, first.date() if first else None, last.date() if last else None)
        counted = reports.funnel(name, steps, days, chosen)
    lines = [f"{counted.visits:>10,}  100.0%  all visits"]
    lines += [
        f"{step.visits:>10,}  {percentage(step.visits, counted.visits):>5.1f}%  {step.page}" for step in counted.steps
    ]
    print_result(asdict(counted), "\n".join(lines), as_json)


def goals(
    context: typer.Context,
    site: OneSite = None,
    range: RangeOption = "7d",
    first: First = None,
    last: Last = None,
    filters: FilterOption = None,
    robots: Robots = "out",
    as_json: Json = False,
) -> None:
    """Show how many visits have reached each goal of a site."""
    chosen = Filters.of(parsed_filters(filters or []), robots=robots)
    with database(context) as db:
        ReportDays(db).update()
        reports = Reports(db)
        name = _site_or_only(reports, site)
        days = reports.days(name, range, first.date() if first else None, last.date() if last else None)
        reached = reports.conversions(name, days, chosen)
    lines = [f"{reached.visits:>10,}  100.0%  all visits"]
    lines += [
        f"{goal.visits:>10,}  {percentage(goal.visits, reached.visits):>5.1f}%  {goal.name} ({', '.join(goal.pages)})"
        for goal in reached.goals
    ]
    print_result(conversions_as_json(reached), "\n".join(lines), as_json)


def goal(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The name of the goal.")],
    pages: Annotated[
        list[str] | None, typer.Argument(metavar="[PAGE]...", help="Up to ten; * at the end is any rest.")
    ] = None,
    site: OneSite = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the goal.")] = False,
    as_json: Json = False,
) -> None:
    """Define a goal of a site, which a visit reaches by any of its pages; or remove it."""
    if remove == bool(pages):
        raise Invalid("give the pages of the goal, or --remove", field="pages")
    with database(context) as db:
        of_site = _site_or_only(Reports(db), site)
        if remove:
            Goals(db).undefine(of_site, name)
            print_result({"removed": name}, f"the goal {name} is removed", as_json)
            return
        defined = Goals(db).define(of_site, name, pages or [])
    print_result(goal_as_json(defined), f"{name}: {', '.join(defined['pages'])}", as_json)


def now(context: typer.Context, site: OneSite = None, as_json: Json = False) -> None:
    """Show who has viewed a page of a site in the last five minutes."""
    with database(context) as db:
        reports = Reports(db)
        people = reports.now(_site_or_only(reports, site))
    lines = [f"{people.visitors:,} on the site", *(f"{visitors:>10,}  {page}" for page, visitors in people.pages)]
    print_result(now_as_json(people), "\n".join(lines), as_json)


def hosts(
    context: typer.Context,
    site: OneSite = None,
    range: RangeOption = "7d",
    first: First = None,
    last: Last = None,
    limit: Limit = 20,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print them as CSV.")] = False,
    as_json: Json = False,
) -> None:
    """Show the addresses with the most requests, their page views, and when each was seen last."""
    with database(context) as db:
        reports = Reports(db)
        name = _site_or_only(reports, site)
        days = reports.days(name, range, first.date() if first else None, last.date() if last else None)
        rows = reports.hosts(name, days, limit=limit)
    if as_csv:
        print_line(csv_of_hosts(rows, line_end="\n").rstrip())
        return
    lines = [
        f"{row.requests:>10,}  {row.views:>8,}  {row.last_seen:%Y-%m-%d %H:%M}  {row.host or '(none)'}" for row in rows
    ]
    head = f"{'requests':>10}  {'views':>8}  {'last seen, UTC':<16}  address"
    print_result([asdict(row) for row in rows], "\n".join([head, *lines]), as_json)


def share(
    context: typer.Context,
    site: Annotated[str, typer.Argument(help="The site.")],
    name: Annotated[str, typer.Option(help="For whom the link is.")] = "",
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="Days until it expires; by default never.")] = None,
    as_json: Json = False,
) -> None:
    """Make a link that shows the reports of one site and nothing else; it cannot be shown again."""
    expires_at = utcnow() + timedelta(days=days) if days else None
    with database(context) as db:
        made, token = Shares(db).create(site, name=name, expires_at=expires_at)
    address = f"/analytics/shared?token={token}"
    print_result({**made, "address": address}, address, as_json)


def shares(
    context: typer.Context,
    site: OneSite = None,
    revoke: Annotated[str | None, typer.Option("--revoke", metavar="ID", help="Revoke this link.")] = None,
    as_json: Json = False,
) -> None:
    """Show the links that share a site, or revoke one."""
    with database(context) as db:
        if revoke is not None:
            Shares(db).revoke(revoke)
            print_result({"revoked": revoke}, f"{revoke} is revoked", as_json)
            return
        links = Shares(db).of(_site_or_only(Reports(db), site))
    lines = [f"{link['_id']}  {_end(link)}  {link['name']}".rstrip() for link in links] or ["no links"]
    print_result(links, "\n".join(lines), as_json)


def _end(link: Share) -> str:
    return f"until {link['expires_at']:%Y-%m-%d}" if "expires_at" in link else "never expires"
