"""Records the views of pages. Of their queries, which may be private, only the `utm_*` of campaigns are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.clock import utcnow
from squinney.http.dependencies import client_address, header
from squinney.service.links.page_views import PageView, PageViews

CAMPAIGN_FIELDS = {f"utm_{name}" for name in ("source", "medium", "campaign", "term", "content")}
MAX_FIELDS = 100
PAGE_BEGINS = b"<!doctype html"
# Routes with parameters whose pages everybody may see. Of others only the route is recorded, because paths of private
# pages contain ids, and the charts are public.
PUBLIC_ROUTES = {
    "/shop/products/{sku:path}",
    "/site/{path:path}",
    "/site/-/tags/{tag}",
    "/social/people/{handle}",
}


class PageViewMiddleware:
    """Records each response that is a whole page. Parts of pages that scripts load are not views."""

    def __init__(self, app: ASGIApp, *, views: PageViews) -> None:
        self._app = app
        self._views = views

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        status, is_page, size = 0, False, 0

        async def watching_send(message: Message) -> None:
            nonlocal status, is_page, size
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                body = message.get("body", b"")
                # guard: a part of a page is not a view
                is_page = is_page or (size == 0 and body[: len(PAGE_BEGINS)].lower() == PAGE_BEGINS)
                size += len(body)
                if is_page and not message.get("more_body"):
                    self._views.record(_view(scope, status, size))
            await send(message)

        await self._app(scope, receive, watching_send)


def _view(scope: Scope, status: int, size: int) -> PageView:
    return PageView(
        path=_path(scope),
        at=utcnow(),
        status=status,
        size=size,
        address=client_address(scope),
        user_agent=header(scope, b"user-agent"),
        referer=_other_site(scope, header(scope, b"referer")),
        campaign=_campaign(str(scope["query_string"], "latin-1")),
    )


def view_reporter(views: PageViews) -> Callable[[Scope, str, str], None]:
    """Return what counts a view that a page's own script reports: one that a cache in front of this site answered."""

    def report(scope: Scope, address: str, referer: str) -> None:
        """Count the view, unless the address is no path of this site."""
        try:
            url = urlsplit(address)
        except ValueError:
            return
        if url.scheme or url.netloc or not url.path.startswith("/"):
            return
        view = _view(scope, 200, 0)
        campaign, other = _campaign(url.query), _other_site(scope, referer)
        views.record(replace(view, path=url.path, referer=other, campaign=campaign, is_reported=True))

    return report


def _campaign(query: str) -> str:
    pairs = parse_qsl(query, errors="replace") if "utm_" in query and query.count("&") < MAX_FIELDS else []
    return urlencode([(name, value) for name, value in pairs if name in CAMPAIGN_FIELDS])


def _path(scope: Scope) -> str:
    """Return the page's path; for a page that not everybody may see, the path of its route."""
    route = getattr(scope.get("route"), "path", None)
    is_private = scope.get("state", {}).get("is_private", False)
    # guard: the paths of private pages are not recorded
    if route is None or (route in PUBLIC_ROUTES and not is_private):
        return str(scope["path"])
    return str(route)


def _other_site(scope: Scope, referer: str) -> str:
    """Return the page of another site that links here, without its query; empty for our own pages."""
    try:
        url = urlsplit(referer)
    except ValueError:
        return ""
    is_other = url.scheme in ("http", "https") and url.netloc and url.netloc != header(scope, b"host")
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}" if is_other else ""
