"""Ads on the pages of the site and the shop. They combine content, commerce and ads, so they are composed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from fastapi import APIRouter, Form, Request
from markupsafe import Markup
from starlette.responses import Response

from squinney.ads import AdNetwork
from squinney.errors import SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.visitor import signature_of, visitor_of
from squinney.http.dependencies import client_network
from squinney.http.pages import redirect, return_path
from squinney.http.site_options import SiteOptions
from squinney.system import Assembled

SITE = "squinney"
COUNT = 2
MAX_WORDS = 20
COOKIE = "squinney-ads"
KEPT_SECONDS = 180 * 86_400

router = APIRouter(include_in_schema=False, route_class=PageRoute)


def ads_for_page(request: Request, values: Mapping[str, Any]) -> Markup:
    """Return the HTML of the ads for a page, or nothing. An error of the ad network never breaks the page."""
    zone = _zone(request)
    network = _network(request)
    if request.method != "GET" or not zone or network is None:
        return Markup("")
    consent = request.cookies.get(COOKIE) == "yes"  # the default is no
    try:
        serves = network.choose(
            SITE,
            zone,
            user=_profile(request) if consent else None,
            keywords=_keywords(values),
            count=COUNT,
            consent=consent,
            accepts=_is_allowed,
            source=client_network(request.scope),
        )
    # guard: a page is shown without ads if none can be chosen
    except SquinneyError:
        return Markup("")
    if not serves:
        return Markup("")
    html = request.app.state.pages.get_template("ads/page_ads.html").render(serves=serves, consent=consent)
    return Markup(html)  # noqa: S704  (the template escapes its values)


@router.post("/ads-consent")
def set_consent(request: Request, allowed: Annotated[str, Form(pattern="^(yes|no)$")]) -> Response:
    """Store whether ads may remember what this visitor has seen; `no` also deletes what they remember."""
    network = _network(request)
    if allowed == "no" and network is not None:
        network.forget(_profile(request))
    response = redirect(request, return_path(request))
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, allowed, max_age=KEPT_SECONDS, httponly=True, samesite="lax", secure=secure)
    return response


def _network(request: Request) -> AdNetwork | None:
    assembled: Assembled = request.app.state.assembled
    return cast(AdNetwork | None, assembled.services.get("ads", {}).get("network"))


def _profile(request: Request) -> str:
    """Return an id for the visitor that reveals neither the person nor the cookie."""
    options: SiteOptions = request.app.state.options
    visitor = visitor_of(request)
    return signature_of(options.secret, "ads", visitor.person["_id"] if visitor.person else visitor.token)


def _zone(request: Request) -> str:
    """Return the ad zone of a page; empty for pages where visitors edit or pay."""
    path, systems = request.url.path, request.app.state.assembled.services
    if path == "/ads" and "commerce" in systems and visitor_of(request).person is None:
        return "site"  # as an example, on the page that says what ads are
    if path == "/site" or (path.startswith("/site/") and not path.startswith("/site/-/")):
        return "site"
    return "shop" if path == "/shop" or path.startswith("/shop/products/") else ""


def _keywords(values: Mapping[str, Any]) -> list[str]:
    """Return the page's tags, or the product's type and genres."""
    product = values.get("product", {})
    groups = [values.get("metadata", {}).get("tags"), [product.get("type")], product.get("details", {}).get("genre")]
    words = [word for group in groups if isinstance(group, list) for word in group]
    return [word[:100] for word in words if isinstance(word, str) and word.strip()][:MAX_WORDS]


def _is_allowed(creative: Mapping[str, Any], ecpm: int, currency: str) -> bool:
    """Exclude images from other sites: the content-security policy blocks them."""
    # guard: images from other sites are not shown
    return creative["kind"] != "image" or str(creative["image"]).startswith("/")
