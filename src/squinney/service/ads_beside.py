"""Ads beside the pages of the site and in the shop: where content, commerce and the network meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse
from markupsafe import Markup
from starlette.responses import Response

from squinney.ads import AdNetwork
from squinney.errors import SquinneyError
from squinney.http.dependencies import address_of
from squinney.http.options import Options
from squinney.http.pages import way_back
from squinney.http.visitor import signed, visitor_of
from squinney.system import Assembled

SITE = "squinney"
COUNT = 2
MOST_WORDS = 20
COOKIE = "squinney-ads"
KEPT_SECONDS = 180 * 86_400

router = APIRouter(include_in_schema=False)


def ads_beside(request: Request, values: Mapping[str, Any]) -> Markup:
    """The ads for a page, given what it shows; empty where there are none. Whatever goes wrong, the page comes."""
    zone = _zone(request.url.path)
    network = _network(request)
    if request.method != "GET" or not zone or network is None:
        return Markup("")
    consent = has_consented(request)
    try:
        serves = network.choose(
            SITE,
            zone,
            user=_profile(request) if consent else None,
            keywords=_words(values),
            count=COUNT,
            consent=consent,
            accepts=_can_be_shown,
            source=address_of(request.scope),
        )
    except SquinneyError:
        return Markup("")
    if not serves:
        return Markup("")
    shown = request.app.state.pages.get_template("ads/beside.html").render(serves=serves, consent=consent)
    return Markup(shown)  # noqa: S704  (the template escapes what it shows)


@router.post("/ads-consent")
def set_consent(request: Request, allowed: Annotated[str, Form(pattern="^(yes|no)$")]) -> Response:
    """Say whether ads may remember what this visitor has seen; with `no`, what they remember is deleted."""
    network = _network(request)
    if allowed == "no" and network is not None:
        network.forget(_profile(request))
    answer = RedirectResponse(way_back(request), status_code=303)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, allowed, max_age=KEPT_SECONDS, httponly=True, samesite="lax", secure=secure)
    return answer


def has_consented(request: Request) -> bool:
    """Whether the visitor has said that ads may remember what they have seen. Nobody has who has said nothing."""
    return request.cookies.get(COOKIE) == "yes"


def _network(request: Request) -> AdNetwork | None:
    assembled: Assembled = request.app.state.assembled
    return cast(AdNetwork | None, assembled.services.get("ads", {}).get("network"))


def _profile(request: Request) -> str:
    """A name for the visitor that tells nobody who they are, nor their cookie."""
    options: Options = request.app.state.options
    visitor = visitor_of(request)
    return signed(options.secret, "ads", visitor.person["_id"] if visitor.person else visitor.token)


def _zone(path: str) -> str:
    """Where people read and look around; not where they edit or pay."""
    if path == "/site" or (path.startswith("/site/") and not path.startswith("/site/-/")):
        return "site"
    return "shop" if path == "/shop" or path.startswith("/shop/products/") else ""


def _words(values: Mapping[str, Any]) -> list[str]:
    """What the page is about: its tags, or the product's type and genres."""
    product = values.get("product", {})
    named = [values.get("metadata", {}).get("tags"), [product.get("type")], product.get("details", {}).get("genre")]
    words = [word for group in named if isinstance(group, list) for word in group]
    return [word[:100] for word in words if isinstance(word, str) and word.strip()][:MOST_WORDS]


def _can_be_shown(creative: Mapping[str, Any], ecpm: int, currency: str) -> bool:
    """Our pages load pictures from this site alone."""
    return creative["kind"] != "image" or str(creative["image"]).startswith("/")
