"""The page of one campaign: its budget, its delivery by day and zone, its ads and their reviews."""

from __future__ import annotations

from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response

from squinney.ads import AdNetwork, Campaign, UnknownCampaign, rules
from squinney.ads.documents import THOUSAND
from squinney.clock import utcnow
from squinney.errors import SquinneyError
from squinney.http.access.permissions import is_admin, signed_in
from squinney.http.charts import Bar, bar_chart
from squinney.http.pages import redirect, render
from squinney.patterns import money
from squinney.patterns.ids import new_id

MAX_SHOWN = 100
MAX_ZONES = 50
DAYS = 30


def own_campaign(request: Request, network: AdNetwork, campaign_id: str) -> Campaign:
    """Return a campaign of the signed-in user. Campaigns of other users look as if they did not exist."""
    campaign = network.get(campaign_id)
    # guard: members see and change only their own campaigns
    if campaign.get("owner") != signed_in(request)["_id"] and not is_admin(request):
        raise UnknownCampaign(f"there is no campaign {campaign_id}", campaign_id=campaign_id)
    return campaign


def show_own(
    request: Request,
    network: AdNetwork,
    campaign_id: str,
    *,
    error: SquinneyError | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    """Show a campaign of the visitor, with the error of a form and what was typed into it."""
    campaign = own_campaign(request, network, campaign_id)
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
        cap_hits=sum(day["capped"] for day in days),
        charts=_charts(days, campaign["budget"]["currency"]),
        days=DAYS,
        zones=network.delivered(campaign_id, "site", "zone", start=since, limit=MAX_ZONES),
        placements=placements[:MAX_SHOWN],
        more_placements=len(placements[MAX_SHOWN:]),
        error=error,
        typed=typed or {},
        is_admin=is_admin(request),
        fundings=network.fundings(campaign_id).items,
        accounts=_accounts(request, campaign),
        key=(typed or {}).get("key") or new_id(),
    )


def _accounts(request: Request, campaign: Campaign) -> list[Any]:
    """Return the accounts from which the visitor can pay; none if the ledger is not served."""
    payments = request.app.state.ad_payments
    if payments is None or "funded" not in campaign:
        return []
    return list(payments.accounts_of(signed_in(request)["_id"], campaign["budget"]["currency"]))


def _today(campaign: Campaign, days: list[dict[str, Any]], now: datetime) -> dict[str, int] | None:
    """Return today's spend, and how much of the daily budget may be committed by now, in minor units."""
    budget = campaign["budget"]
    if budget["daily"] is None:
        return None
    spent = sum(day["spend"] for day in days if day["day"] == rules.day_of(now))
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
            Bar(f"{day['day']:%d %b}", day[name] / scale, f"{day['day']:%d %B}: {day[name] / scale:,.{decimals}f}")
            for day in days
        ]
        drawn.append((title, bar_chart(bars, title=f"{title} by day")))
    return drawn


def to_campaign(request: Request, campaign_id: str, message: str) -> Response:
    """Redirect to the page of a campaign, and show a message there."""
    return redirect(request, f"/ads/campaigns/{quote(campaign_id, safe=':/')}", message)
