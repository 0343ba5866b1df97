"""Links to share the reports of a site: the pages that such a link shows, and the page where editors make links.

A link's token is in the query of its address, since neither logs nor events of page views contain queries.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from squinney.analytics.reports.shares import MAX_NAME_LENGTH, Shares
from squinney.analytics.reports.sites import ReportSites
from squinney.analytics.reports.tally import CHARTED
from squinney.analytics.surface.report_choice import ReportChoice, panel_as_csv
from squinney.analytics.surface.web_reports import Chosen, Read, Text, choice_of, panel_page, report_page
from squinney.clock import utcnow
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import needs, signed_in
from squinney.http.dependencies import service
from squinney.http.pages import redirect, render

router = APIRouter(prefix="/analytics/shared", route_class=PageRoute)
# guard: links to share a site are made by editors only
editing = APIRouter(prefix="/analytics/shares", route_class=PageRoute, dependencies=[needs("editor")])

SharesDep = Annotated[Shares, Depends(service("analytics", "shares", Shares))]
SitesDep = Annotated[ReportSites, Depends(service("analytics", "report_sites", ReportSites))]
Short = Annotated[str, Form(max_length=MAX_NAME_LENGTH)]


def shared_choice(
    request: Request,
    reports: Read,
    shares: SharesDep,
    token: Annotated[str, Query(max_length=MAX_NAME_LENGTH)],
    range: Text = "",
    robots: Text = "out",
    chart: Text = CHARTED[0],
) -> ReportChoice:
    """Return what the visitor has chosen of the site of the link, whatever else the address says."""
    # guard: a link shows its own site only
    site = shares.site_of(token)
    return choice_of(request, reports, site, range, robots, chart, token=token)


Shared = Annotated[ReportChoice, Depends(shared_choice)]


@router.get("", response_class=HTMLResponse)
def show_shared_report(request: Request, reports: Read, chosen: Shared) -> Response:
    """Show the numbers of the site of a link."""
    return report_page(request, reports, chosen, [chosen.site])


@router.get("/now", response_class=HTMLResponse)
def show_shared_now(request: Request, reports: Read, chosen: Shared) -> Response:
    """Return who is on the site of a link."""
    return render(request, "analytics/now.html", now=reports.now(chosen.site), chosen=chosen)


@router.get("/panels/{name}.csv")
def download_shared_panel(reports: Read, chosen: Shared, name: str) -> Response:
    """Download a panel of the site of a link as CSV."""
    return panel_as_csv(reports.panel(chosen.site, name, chosen.days, chosen.filters, limit=1_000))


@router.get("/panels/{name}", response_class=HTMLResponse)
def show_shared_panel(request: Request, reports: Read, chosen: Shared, name: str) -> Response:
    """Show more rows of one panel of the site of a link."""
    return panel_page(request, reports, chosen, name)


# ---- for editors ----


@editing.get("", response_class=HTMLResponse)
def show_shares(request: Request, shares: SharesDep, sites: SitesDep, chosen: Chosen) -> Response:
    """Show the links of a site, and whether the site is private."""
    return _page(request, shares, sites, chosen)


def _page(request: Request, shares: Shares, sites: ReportSites, chosen: ReportChoice, made: str = "") -> Response:
    return render(
        request,
        "analytics/shares.html",
        chosen=chosen,
        shares=shares.of(chosen.site),
        is_private=sites.settings(chosen.site)["is_private"],
        made=made,
    )


@editing.post("", response_class=HTMLResponse)
def create_share(
    request: Request,
    shares: SharesDep,
    sites: SitesDep,
    chosen: Chosen,
    name: Short = "",
    days: Annotated[int, Form(ge=0, le=3_650)] = 0,
) -> Response:
    """Make a link, and show it once."""
    expires_at = utcnow() + timedelta(days=days) if days else None
    by = signed_in(request)["_id"]
    _, token = shares.create(chosen.site, name=name, expires_at=expires_at, created_by=by)
    return _page(request, shares, sites, chosen, f"{request.base_url}analytics/shared?token={token}")


@editing.post("/revoke")
def revoke_share(request: Request, shares: SharesDep, chosen: Chosen, share: Short) -> Response:
    """Revoke a link."""
    shares.revoke(share)
    return redirect(request, f"/analytics/shares?{chosen.query()}", "The link is revoked.")


@editing.post("/privacy")
def set_private(request: Request, sites: SitesDep, chosen: Chosen, is_private: Annotated[bool, Form()]) -> Response:
    """Show the reports of the site to editors only, or to everybody."""
    sites.set_private(chosen.site, is_private)
    return redirect(request, f"/analytics/shares?{chosen.query()}", "The change is made.")
