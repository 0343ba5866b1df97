"""What search engines read: `robots.txt`, and `sitemap.xml` with the pages that everybody may see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from xml.etree import ElementTree

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from squinney.http.access.callers import PageRoute
from squinney.system import Assembled

router = APIRouter(include_in_schema=False, route_class=PageRoute)
MAX_PAGES = 5_000  # a sitemap may have ten times as many
KEPT_SECONDS = 600.0  # so that nobody can have it made again and again
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
PRIVATE = (
    "/admin", "/account", "/api/", "/sign-in", "/sign-up", "/welcome", "/ads/click", "/analytics/shared", "/*/-/",
)  # fmt: skip


@router.get("/robots.txt")
def show_robots(request: Request) -> PlainTextResponse:
    """Name the pages that are no use to a search engine, and the sitemap."""
    lines = ["User-agent: *", *(f"Disallow: {path}" for path in PRIVATE)]
    return PlainTextResponse("\n".join([*lines, f"Sitemap: {_base(request)}/sitemap.xml", ""]))


@router.get("/sitemap.xml")
def show_sitemap(request: Request) -> Response:
    """List the pages of every system that has a list of its public pages."""
    made_at, paths = getattr(request.app.state, "sitemap", (0.0, ()))
    if not paths or time.monotonic() > made_at + KEPT_SECONDS:
        paths = tuple(islice(_paths(request), MAX_PAGES))
        request.app.state.sitemap = (time.monotonic(), paths)
    root = ElementTree.Element("urlset", xmlns=NAMESPACE)
    for path in paths:
        ElementTree.SubElement(ElementTree.SubElement(root, "url"), "loc").text = _base(request) + path
    body = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return Response(body, media_type="application/xml")


def _paths(request: Request) -> Iterator[str]:
    systems: Assembled = request.app.state.assembled
    yield "/"
    for system in request.app.state.menu:
        yield f"/{system.path}"
        module = system.surface("web")
        public = getattr(module, "public_pages", None)
        if public:
            yield from public(systems.services[system.name])


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")
