"""The page of the addresses that send requests to a site. It is for editors: an address is private data."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from squinney.analytics.surface.report_choice import hosts_as_csv
from squinney.analytics.surface.web_reports import ROWS_ALONE, Chosen, Read
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import needs
from squinney.http.pages import render

# guard: addresses are shown to editors only
router = APIRouter(prefix="/analytics", route_class=PageRoute, dependencies=[needs("editor")])


@router.get("/hosts", response_class=HTMLResponse)
def show_hosts(request: Request, reports: Read, chosen: Chosen) -> Response:
    """Show the addresses with the most requests."""
    hosts = reports.hosts(chosen.site, chosen.days, limit=ROWS_ALONE)
    return render(request, "analytics/hosts.html", chosen=chosen, hosts=hosts)


@router.get("/hosts.csv")
def download_hosts(reports: Read, chosen: Chosen) -> Response:
    """Download the addresses as CSV."""
    return hosts_as_csv(reports.hosts(chosen.site, chosen.days, limit=1_000))
