"""The web pages of the network: the console, beacons and clicks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel
from starlette.responses import Response

from squinney.ads import AdNetwork, Campaign, UnknownCampaign, rules
from squinney.ads.documents import THOUSAND
from squinney.clock import utcnow
from squinney.errors import Invalid, LimitReached, NotFound, SquinneyError
from squinney.http.charts import Bar, bar_chart
from squinney.http.dependencies import client_address, service
from squinney.http.pages import redirect, render
from squinney.http.permissions import is_admin, needs, signed_in
from squinney.patterns import money

router = APIRouter(prefix="/ads")
WRITES_NEED = "member"

Network = Annotated[AdNetwork, Depends(service("ads", "network", AdNetwork))]
Text = Annotated[str, Form()]
Cursor = Annotated[str | None, Query(max_length=20_000)]
Name = Annotated[str, Query(max_length=200)]
MOST_OWN = 100
MOST_OWN_ADS = 100  # of one campaign, since a choice may look at all of them
MOST_SHOWN = 100
MOST_ZONES = 50
MOST_CANDIDATES = 200
DAYS = 30
PIXEL = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
NOT_KEPT = {"Cache-Control": "no-store"}


def _own(request: Request, network: AdNetwork, campaign_id: str) -> Campaign:
    """Return a campaign of the signed-in user. Campaigns of other users look as if they did not exist."""
    campaign = network.get(campaign_id)
    if campaign.get("owner") != signed_in(request)["_id"] and not is_admin(request):
        raise UnknownCampaign(f"there is no campaign {campaign_id}", campaign_id=campaign_id)
    return campaign


@router.get("", response_class=HTMLResponse, dependencies=[needs("member")])
def show_campaigns(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Show the user's campaigns, or all of them to an admin, and a form to create one."""
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
        money=network.money(one["_id"] for one in page.items),
        thousand=THOUSAND,
        is_admin=is_admin(request),
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
        )
    except SquinneyError as error:
        return _index(request, network, error=error, typed=form.model_dump())
    return _to_campaign(request, form.name, "The campaign was created. Now put its first ad into a zone.")


def _to_campaign(request: Request, campaign_id: str, message: str) -> Response:
    return redirect(request, f"/ads/campaigns/{quote(campaign_id, safe=':/')}", message)


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
    if not is_admin(request) and len(network.owned_by(signed_in(request)["_id"], limit=MOST_OWN).items) >= MOST_OWN:
        raise LimitReached(f"a member can have at most {MOST_OWN} campaigns", limit=MOST_OWN)


@router.get("/campaigns/{campaign_id:path}", response_class=HTMLResponse, dependencies=[needs("member")])
def show_campaign(request: Request, network: Network, campaign_id: str) -> Response:
    """Show a campaign: its budget, its delivery by day and zone, and its ads."""
    return _campaign(request, network, campaign_id)


def _campaign(
    request: Request,
    network: AdNetwork,
    campaign_id: str,
    *,
    error: SquinneyError | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    campaign = _own(request, network, campaign_id)
    now = utcnow()
    since = rules.day_of(now) - timedelta(days=DAYS)
    days = sorted(network.delivered(campaign_id, "day", start=since), key=itemgetter("day"))
    placements = network.placements(campaign_id)
    return render(
        request,
        "ads/campaign.html",
        campaign=campaign,
        money=network.money([campaign_id])[campaign_id],
        thousand=THOUSAND,
        today=_today(campaign, days, now),
        cap_hits=sum(one["capped"] for one in days),
        charts=_charts(days, campaign["budget"]["currency"]),
        days=DAYS,
        zones=network.delivered(campaign_id, "site", "zone", start=since, limit=MOST_ZONES),
        placements=placements[:MOST_SHOWN],
        more_placements=len(placements[MOST_SHOWN:]),
        error=error,
        typed=typed or {},
    )


def _today(campaign: Campaign, days: list[dict[str, Any]], now: datetime) -> dict[str, int] | None:
    """Return today's spend, and how much of the daily budget may be committed by now, in minor units."""
    budget = campaign["budget"]
    if budget["daily"] is None:
        return None
    spent = sum(one["spend"] for one in days if one["day"] == rules.day_of(now))
    allowed = rules.day_allowance(budget["daily"], budget.get("pacing", "asap"), now)
    return {"spent": spent // THOUSAND, "allowed": allowed}


def _charts(days: list[dict[str, Any]], currency: str) -> list[tuple[str, Any]]:
    drawn = []
    for title, name, scale in (
        ("Impressions", "impressions", 1),
        ("Clicks", "clicks", 1),
        (f"Spend in {currency}", "spend", 10 ** money.decimals(currency) * THOUSAND),
    ):
        decimals = 0 if scale == 1 else 2
        bars = [
            Bar(f"{one['day']:%d %b}", one[name] / scale, f"{one['day']:%d %B}: {one[name] / scale:,.{decimals}f}")
            for one in days
        ]
        drawn.append((title, bar_chart(bars, title=f"{title} by day")))
    return drawn


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
    _own(request, network, campaign_id)
    try:
        _refuse_too_many_ads(request, network, campaign_id, form)
        ad = {
            "unit": form.unit,
            "creative": _creative(form),
            "keywords": _listed(form.keywords),
            "weight": _number(form.weight or "1", "weight"),
        }
        network.place(campaign_id, form.site, form.zone, ad)
    except SquinneyError as error:
        return _campaign(request, network, campaign_id, error=error, typed=form.model_dump())
    return _to_campaign(request, campaign_id, "The ad was put into the zone.")


def _creative(form: AdForm) -> dict[str, str]:
    if form.image:
        return {"kind": "image", "image": form.image, "alt": form.title, "url": form.url}
    return {"kind": "text", "title": form.title, "text": form.text, "url": form.url}


def _refuse_too_many_ads(request: Request, network: AdNetwork, campaign_id: str, form: AdForm) -> None:
    placed = network.placements(campaign_id)
    key = {"site": form.site, "zone": form.zone, "ad_unit": form.unit}
    if not is_admin(request) and len(placed) >= MOST_OWN_ADS and all(one["_id"] != key for one in placed):
        raise LimitReached(f"a member's campaign can have at most {MOST_OWN_ADS} ads", limit=MOST_OWN_ADS)


@router.post("/active/{campaign_id:path}", response_class=HTMLResponse)
def set_active(
    request: Request, network: Network, campaign_id: str, site: Text, zone: Text, unit: Text, active: Text
) -> Response:
    """Deactivate an ad, or activate it again."""
    _own(request, network, campaign_id)
    key = {"site": site, "zone": zone, "ad_unit": unit}
    found = next((one for one in network.placements(campaign_id) if one["_id"] == key), None)
    if found is None:
        raise NotFound(f"the campaign has no ad {unit} in zone {zone} of site {site}")
    kept = {name: found[name] for name in ("creative", "keywords", "weight", "cap")}
    network.place(campaign_id, site, zone, {"unit": unit, **kept, "active": active == "yes"})
    message = "The ad is active again." if active == "yes" else "The ad is no longer shown."
    return _to_campaign(request, campaign_id, message)


@router.post("/status/{campaign_id:path}", response_class=HTMLResponse)
def set_status(request: Request, network: Network, campaign_id: str, status: Text) -> Response:
    """Pause, resume or end a campaign."""
    _own(request, network, campaign_id)
    changes = {"paused": network.pause, "active": network.resume, "ended": network.deactivate}
    if status not in changes:
        raise Invalid("status must be paused, active or ended", field="status")
    try:
        changes[status](campaign_id)
    except SquinneyError as error:
        return _campaign(request, network, campaign_id, error=error)
    return _to_campaign(request, campaign_id, f"The campaign is {status}.")


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
    shown, more = candidates[:MOST_CANDIDATES], len(candidates[MOST_CANDIDATES:])
    return render(request, "ads/why.html", candidates=shown, more=more, typed=typed, error=error)


@router.get("/seen/{serve_id}")
def see(request: Request, network: Network, serve_id: str) -> Response:
    """Count an impression and return an image of one pixel. Repeated requests count once."""
    network.impression(serve_id, source=client_address(request.scope))
    return Response(PIXEL, media_type="image/gif", headers=NOT_KEPT)


@router.get("/viewable/{serve_id}")
def view(network: Network, serve_id: str) -> Response:
    """Count a viewable impression: `ads.js` reports that half of the ad was visible for a second. Counts once."""
    network.viewable(serve_id)
    return Response(status_code=204, headers=NOT_KEPT)


@router.get("/click/{serve_id}")
def click(network: Network, serve_id: str) -> Response:
    """Count a click, once, and redirect to the creative's URL."""
    return RedirectResponse(network.click(serve_id).url, status_code=303, headers=NOT_KEPT)
