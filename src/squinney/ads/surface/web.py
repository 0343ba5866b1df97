"""The network's pages: the console, beacons and clicks."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from squinney.ads import AdNetwork, Campaign, UnknownCampaign, rules
from squinney.ads.documents import THOUSAND
from squinney.clock import utcnow
from squinney.errors import Forbidden, Invalid, LimitReached, SquinneyError
from squinney.http.charts import Bar, bar_chart
from squinney.http.dependencies import address_of, service
from squinney.http.pages import render
from squinney.http.permissions import needs
from squinney.http.statuses import status_of
from squinney.http.visitor import visitor_of
from squinney.patterns import money
from squinney.roles import may_act_as

router = APIRouter(prefix="/ads")
WRITES_NEED = "member"

Network = Annotated[AdNetwork, Depends(service("ads", "network", AdNetwork))]
Text = Annotated[str, Form()]
Cursor = Annotated[str | None, Query(max_length=20_000)]
Name = Annotated[str, Query(max_length=200)]
MOST_OWN = 100
SAFE = ":/"  # of a campaign's name, as it stands in an address
PIXEL = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
NOT_KEPT = {"Cache-Control": "no-store"}


def _is_admin(request: Request) -> bool:
    return may_act_as(visitor_of(request).role, "admin")


def _person_id(request: Request) -> str:
    person = visitor_of(request).person
    if person is None:
        raise Forbidden("sign in first")
    return person["_id"]


def _own(request: Request, network: AdNetwork, campaign_id: str) -> Campaign:
    """The campaign if it is the visitor's; of others' they learn nothing, not even that they are there."""
    campaign = network.get(campaign_id)
    if campaign.get("owner") != _person_id(request) and not _is_admin(request):
        raise UnknownCampaign(f"there is no campaign {campaign_id}", campaign_id=campaign_id)
    return campaign


@router.get("", response_class=HTMLResponse, dependencies=[needs("member")])
def show_campaigns(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """One's own campaigns, the admin's are all; and a form to make one."""
    return _index(request, network, cursor=cursor)


def _index(request: Request, network: AdNetwork, *, error: SquinneyError | None = None, **values: Any) -> Response:
    cursor = values.get("cursor")
    if _is_admin(request):
        page = network.all(cursor=cursor, limit=50)
    else:
        page = network.owned_by(_person_id(request), cursor=cursor, limit=50)
    return render(
        request,
        "ads/index.html",
        status=status_of(error) if error else 200,
        page=page,
        spent={key: one["spent"] // THOUSAND for key, one in network.money(c["_id"] for c in page.items).items()},
        is_admin=_is_admin(request),
        error=error,
        typed=values.get("typed", {}),
    )


@router.post("/campaigns", response_class=HTMLResponse)
def make_campaign(
    request: Request,
    network: Network,
    name: Text,
    advertiser: Text,
    model: Text,
    bid: Text,
    total: Text,
    daily: Text = "",
) -> Response:
    """Make a campaign and show it."""
    typed = {"name": name, "advertiser": advertiser, "model": model, "bid": bid, "total": total, "daily": daily}
    try:
        _refuse_too_many(request, network)
        network.create_campaign(
            name,
            advertiser,
            pricing={"model": model, "bid": _amount(bid, "bid")},
            budget={
                "total": _amount(total, "total"),
                "daily": _amount(daily, "daily") if daily else None,
                "pacing": "even",
            },
            owner=_person_id(request),
        )
    except SquinneyError as error:
        return _index(request, network, error=error, typed=typed)
    visitor_of(request).flash("The campaign is made. Put its first ad into a zone.")
    return RedirectResponse(f"/ads/campaigns/{quote(name, safe=SAFE)}", status_code=303)


def _refuse_too_many(request: Request, network: AdNetwork) -> None:
    if not _is_admin(request) and len(network.owned_by(_person_id(request), limit=MOST_OWN).items) >= MOST_OWN:
        raise LimitReached(f"a member has at most {MOST_OWN} campaigns", limit=MOST_OWN)


def _amount(text: str, field: str) -> int:
    amount = money.parsed(text, "EUR")
    if amount is None:
        raise Invalid(f"{field} must be a number like 12.50", field=field)
    return amount


@router.get("/campaigns/{campaign_id:path}", response_class=HTMLResponse, dependencies=[needs("member")])
def show_campaign(request: Request, network: Network, campaign_id: str) -> Response:
    """One campaign: its money, its delivery by day and zone, its ads."""
    return _campaign(request, network, campaign_id)


def _campaign(
    request: Request, network: AdNetwork, campaign_id: str, *, error: SquinneyError | None = None
) -> Response:
    campaign = _own(request, network, campaign_id)
    stats = network.stats(campaign_id)
    return render(
        request,
        "ads/campaign.html",
        status=status_of(error) if error else 200,
        campaign=campaign,
        totals=stats["totals"],
        money=network.money([campaign_id])[campaign_id],
        thousand=THOUSAND,
        today=_today(campaign, stats["rows"], utcnow()),
        charts=_charts(stats),
        zones=_zones(stats["rows"]),
        placements=network.placements(campaign_id),
        error=error,
    )


def _today(campaign: Campaign, rows: list[dict[str, Any]], now: datetime) -> dict[str, int] | None:
    """What a day's budget has come to today, and how much of it may be out by now, in minor units."""
    budget = campaign["budget"]
    if budget["daily"] is None:
        return None
    spent = sum(row["spend"] for row in rows if row["day"] == rules.day_of(now))
    allowed = rules.day_allowance(budget["daily"], budget.get("pacing", "asap"), now)
    return {"spent": spent // THOUSAND, "allowed": allowed}


def _charts(stats: dict[str, Any]) -> list[tuple[str, Any]]:
    by_day: dict[Any, dict[str, int]] = defaultdict(lambda: {"impressions": 0, "clicks": 0, "spend": 0})
    for row in stats["rows"]:
        for name in ("impressions", "clicks", "spend"):
            by_day[row["day"]][name] += row[name]
    drawn = []
    currency = stats["currency"]
    for title, name, scale in (
        ("Impressions", "impressions", 1),
        ("Clicks", "clicks", 1),
        (f"Spend in {currency}", "spend", 10 ** money.decimals(currency) * THOUSAND),
    ):
        bars = [
            Bar(
                f"{day:%d %b}", counts[name] / scale, f"{day:%d %B}: {counts[name] / scale:,.{0 if scale == 1 else 2}f}"
            )
            for day, counts in sorted(by_day.items())[-30:]
        ]
        drawn.append((title, bar_chart(bars, title=f"{title} by day")))
    return drawn


def _zones(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Delivery by zone, the largest first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        zone = found.setdefault((row["site"], row["zone"]), {"impressions": 0, "clicks": 0, "spend": 0})
        for name in zone:
            zone[name] += row[name]
    named = [{"site": site, "zone": zone, **counts} for (site, zone), counts in found.items()]
    return sorted(named, key=lambda one: -one["impressions"])


@router.post("/place/{campaign_id:path}", response_class=HTMLResponse)
def place(
    request: Request, network: Network, campaign_id: str, site: Text, zone: Text, unit: Text, title: Text, url: Text,
    text: Text = "", keywords: Text = "",
) -> Response:  # fmt: skip
    """Put an ad of words into a zone."""
    _own(request, network, campaign_id)
    creative = {"kind": "text", "title": title, "text": text, "url": url}
    words = [word.strip() for word in keywords.split(",") if word.strip()]
    try:
        network.place(campaign_id, site, zone, {"unit": unit, "creative": creative, "keywords": words})
    except SquinneyError as error:
        return _campaign(request, network, campaign_id, error=error)
    visitor_of(request).flash("The ad is in its zone.")
    return RedirectResponse(f"/ads/campaigns/{quote(campaign_id, safe=SAFE)}", status_code=303)


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
    visitor_of(request).flash(f"The campaign is {status}.")
    return RedirectResponse(f"/ads/campaigns/{quote(campaign_id, safe=SAFE)}", status_code=303)


@router.get("/why", response_class=HTMLResponse, dependencies=[needs("admin")])
def show_why(
    request: Request,
    network: Network,
    site: Name = "squinney",
    zone: Name = "site",
    user: Name = "",
    keywords: Name = "",
) -> Response:
    """Why this ad: every candidate of a zone with its score, or why it is left out. Nothing is chosen."""
    words = [word.strip() for word in keywords.split(",") if word.strip()]
    error, candidates = None, []
    try:
        candidates = network.explain(site, zone, user=user or None, keywords=words)
    except SquinneyError as refused:
        error = refused
    asked = {"site": site, "zone": zone, "user": user, "keywords": keywords}
    status = status_of(error) if error else 200
    return render(request, "ads/why.html", status=status, candidates=candidates, asked=asked, error=error)


@router.get("/seen/{serve_id}")
def see(request: Request, network: Network, serve_id: str) -> Response:
    """The beacon of an impression, for a picture of one point. It counts once, however often it is asked for."""
    network.impression(serve_id, source=address_of(request.scope))
    return Response(PIXEL, media_type="image/gif", headers=NOT_KEPT)


@router.get("/viewable/{serve_id}")
def view(network: Network, serve_id: str) -> Response:
    """The beacon of `ads.js`: half of the ad was in sight for a second. It counts once."""
    network.viewable(serve_id)
    return Response(status_code=204, headers=NOT_KEPT)


@router.get("/click/{serve_id}")
def click(network: Network, serve_id: str) -> Response:
    """Count a click, once, and go to the creative's own address."""
    return RedirectResponse(network.click(serve_id).url, status_code=303, headers=NOT_KEPT)
