"""The web pages of the network: the console, beacons and clicks."""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel
from starlette.responses import Response

from squinney.ads import AdNetwork
from squinney.ads.documents import THOUSAND
from squinney.ads.surface import web_review
from squinney.ads.surface.campaign_page import own_campaign, show_own, to_campaign
from squinney.errors import Invalid, LimitReached, NotFound, SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import is_admin, needs, signed_in
from squinney.http.access.visitor import visitor_of
from squinney.http.dependencies import client_network, service
from squinney.http.pages import render
from squinney.patterns import money
from squinney.roles import may_act_as

router = APIRouter(prefix="/ads", route_class=PageRoute)
WRITES_NEED = "member"
router.include_router(web_review.router)

Network = Annotated[AdNetwork, Depends(service("ads", "network", AdNetwork))]
Text = Annotated[str, Form()]
Cursor = Annotated[str | None, Query(max_length=20_000)]
Name = Annotated[str, Query(max_length=200)]
MAX_OWN = 100
MAX_OWN_ADS = 100  # of one campaign, since a choice may look at all of them
MAX_CANDIDATES = 200
BROWSERS_PER_ADDRESS = 5  # that are told apart: an office shares an address, and a program can name any browser
PIXEL = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
NOT_KEPT = {"Cache-Control": "no-store"}


@router.get("", response_class=HTMLResponse)
def show_campaigns(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Show the user's campaigns, or all of them to an admin, and a form to create one; tell visitors what ads are."""
    if visitor_of(request).person is None:
        return render(request, "ads/welcome.html")
    return _index(request, network, cursor=cursor)


def _index(request: Request, network: AdNetwork, *, error: SquinneyError | None = None, **values: Any) -> Response:
    cursor = values.get("cursor")
    if is_admin(request):
        page = network.all(cursor=cursor, limit=50)
    else:
        page = network.owned_by(signed_in(request)["_id"], cursor=cursor, limit=50)
    return render(
        request,
        "ads/index.html",
        page=page,
        money=network.money(item["_id"] for item in page.items),
        thousand=THOUSAND,
        is_admin=is_admin(request),
        is_editor=may_act_as(visitor_of(request).role, "editor"),
        error=error,
        typed=values.get("typed", {}),
    )


class CampaignForm(BaseModel):
    """The fields of the campaign form, as typed."""

    name: str = ""
    advertiser: str = ""
    model: str = ""
    bid: str = ""
    total: str = ""
    daily: str = ""
    pacing: str = "even"
    cap: str = ""
    cap_hours: str = ""
    starts: str = ""
    ends: str = ""
    keywords: str = ""
    sites: str = ""


@router.post("/campaigns", response_class=HTMLResponse)
def make_campaign(request: Request, network: Network, form: Annotated[CampaignForm, Form()]) -> Response:
    """Create a campaign and show it."""
    try:
        # guard: the campaigns of a member are limited
        _refuse_too_many(request, network)
        network.create_campaign(
            form.name,
            form.advertiser,
            pricing={"model": form.model, "bid": money.parsed(form.bid, "EUR", "bid")},
            budget={
                "total": money.parsed(form.total, "EUR", "budget"),
                "daily": money.parsed(form.daily, "EUR", "daily budget") if form.daily else None,
                "pacing": form.pacing,
            },
            cap=_cap(form),
            starts_at=_day(form.starts, "starts"),
            ends_at=_day(form.ends, "ends", end=True),
            targeting={"keywords": _listed(form.keywords), "sites": _listed(form.sites)},
            owner=signed_in(request)["_id"],
            # guard: campaigns of members need review and money
            review=True,
        )
    except SquinneyError as error:
        return _index(request, network, error=error, typed=form.model_dump())
    return to_campaign(request, form.name, "The campaign was created. Now fund it, and put its first ad into a zone.")


def _cap(form: CampaignForm) -> dict[str, int] | None:
    if not form.cap:
        return None
    hours = _number(form.cap_hours or "24", "hours of the cap")
    return {"impressions": _number(form.cap, "cap"), "per_seconds": hours * 3_600}


def _number(text: str, field: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise Invalid(f"{field} must be a whole number", field=field)
    return int(text)


def _day(text: str, field: str, *, end: bool = False) -> datetime | None:
    """Parse a day; return its start in UTC or, with `end`, its end, so that a campaign's last day is included."""
    if not text:
        return None
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
        return day + timedelta(days=1) if end else day
    except (ValueError, OverflowError):
        raise Invalid(f"{field} must be a date such as 2026-03-31", field=field) from None


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _refuse_too_many(request: Request, network: AdNetwork) -> None:
    if not is_admin(request) and len(network.owned_by(signed_in(request)["_id"], limit=MAX_OWN).items) >= MAX_OWN:
        raise LimitReached(f"a member can have at most {MAX_OWN} campaigns", limit=MAX_OWN)


@router.get("/campaigns/{campaign_id:path}", response_class=HTMLResponse, dependencies=[needs("member")])
def show_campaign(request: Request, network: Network, campaign_id: str) -> Response:
    """Show a campaign: its budget, its delivery by day and zone, and its ads."""
    return show_own(request, network, campaign_id)


class AdForm(BaseModel):
    """The fields of the ad form, as typed."""

    site: str = ""
    zone: str = ""
    unit: str = ""
    title: str = ""
    text: str = ""
    image: str = ""
    url: str = ""
    keywords: str = ""
    weight: str = "1"


@router.post("/place/{campaign_id:path}", response_class=HTMLResponse)
def place(request: Request, network: Network, campaign_id: str, form: Annotated[AdForm, Form()]) -> Response:
    """Put a text or image ad into a zone."""
    own_campaign(request, network, campaign_id)
    try:
        # guard: the ads of a member's campaign are limited
        _refuse_too_many_ads(request, network, campaign_id, form)
        ad = {
            "unit": form.unit,
            "creative": _creative(form),
            "keywords": _listed(form.keywords),
            "weight": _number(form.weight or "1", "weight"),
        }
        network.place(campaign_id, form.site, form.zone, ad, review=True)
    except SquinneyError as error:
        return show_own(request, network, campaign_id, error=error, typed=form.model_dump())
    return to_campaign(request, campaign_id, "The ad was put into the zone. An editor reviews it before it is shown.")


def _creative(form: AdForm) -> dict[str, str]:
    if form.image:
        return {"kind": "image", "image": form.image, "alt": form.title, "url": form.url}
    return {"kind": "text", "title": form.title, "text": form.text, "url": form.url}


def _refuse_too_many_ads(request: Request, network: AdNetwork, campaign_id: str, form: AdForm) -> None:
    placed = network.placements(campaign_id)
    key = {"site": form.site, "zone": form.zone, "ad_unit": form.unit}
    if not is_admin(request) and len(placed) >= MAX_OWN_ADS and all(placement["_id"] != key for placement in placed):
        raise LimitReached(f"a member's campaign can have at most {MAX_OWN_ADS} ads", limit=MAX_OWN_ADS)


@router.post("/active/{campaign_id:path}", response_class=HTMLResponse)
def set_active(
    request: Request, network: Network, campaign_id: str, site: Text, zone: Text, unit: Text, active: Text
) -> Response:
    """Deactivate an ad, or activate it again."""
    own_campaign(request, network, campaign_id)
    key = {"site": site, "zone": zone, "ad_unit": unit}
    placement = next((placement for placement in network.placements(campaign_id) if placement["_id"] == key), None)
    if placement is None:
        raise NotFound(f"the campaign has no ad {unit} in zone {zone} of site {site}")
    kept = {name: placement[name] for name in ("creative", "keywords", "weight", "cap")}
    network.place(campaign_id, site, zone, {"unit": unit, **kept, "active": active == "yes"}, review=True)
    message = "The ad is active again." if active == "yes" else "The ad is no longer shown."
    return to_campaign(request, campaign_id, message)


@router.post("/status/{campaign_id:path}", response_class=HTMLResponse)
def set_status(request: Request, network: Network, campaign_id: str, status: Text) -> Response:
    """Pause, resume or end a campaign."""
    own_campaign(request, network, campaign_id)
    changes = {"paused": network.pause, "active": network.resume, "ended": network.deactivate}
    if status not in changes:
        raise Invalid("status must be paused, active or ended", field="status")
    try:
        changes[status](campaign_id)
    except SquinneyError as error:
        return show_own(request, network, campaign_id, error=error)
    return to_campaign(request, campaign_id, f"The campaign is {status}.")


@router.get("/why", response_class=HTMLResponse, dependencies=[needs("admin")])
def show_why(
    request: Request,
    network: Network,
    site: Name = "squinney",
    zone: Name = "site",
    user: Name = "",
    keywords: Name = "",
) -> Response:
    """Show every candidate of a zone with its score and why it would not be chosen. Nothing is chosen."""
    error, candidates = None, []
    try:
        candidates = network.explain(site, zone, user=user or None, keywords=_listed(keywords))
    except SquinneyError as refused:
        error = refused
    typed = {"site": site, "zone": zone, "user": user, "keywords": keywords}
    shown, more = candidates[:MAX_CANDIDATES], len(candidates[MAX_CANDIDATES:])
    return render(request, "ads/why.html", candidates=shown, more=more, typed=typed, error=error)


@router.get("/seen/{serve_id}")
def see(request: Request, network: Network, serve_id: str) -> Response:
    """Count an impression and return an image of one pixel. Repeated requests count once."""
    network.impression(serve_id, source=client_network(request.scope))
    return Response(PIXEL, media_type="image/gif", headers=NOT_KEPT)


@router.get("/viewable/{serve_id}")
def view(network: Network, serve_id: str) -> Response:
    """Count a viewable impression: `ads.js` reports that half of the ad was visible for a second. Counts once."""
    network.viewable(serve_id)
    return Response(status_code=204, headers=NOT_KEPT)


@router.get("/click/{serve_id}")
def click(request: Request, network: Network, serve_id: str) -> Response:
    """Count a click, once for each visitor within some minutes, and redirect to the creative's URL."""
    clicked = network.click(serve_id, visitor=_names_of(request))
    return RedirectResponse(clicked.url, status_code=303, headers=NOT_KEPT)


def _names_of(request: Request) -> list[str]:
    """Return what the visitor is known by. Anybody can make up cookies and browsers, so an address has only a few."""
    visitor = visitor_of(request)
    if visitor.person:
        return [f"person {visitor.person['_id']}"]
    # guard: made-up browsers of one address click an ad only a few times
    which = zlib.crc32(request.headers.get("user-agent", "").encode()) % BROWSERS_PER_ADDRESS
    browser = f"browser {client_network(request.scope)} {which}"
    return [browser] if visitor.is_new else [f"cookie {visitor.token}", browser]
