"""The pages of review and payment: the queue of the editors, and the forms that fund a campaign."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from squinney.ads import AdNetwork
from squinney.ads.surface.campaign_page import own_campaign, show_own, to_campaign
from squinney.errors import Conflict, Forbidden, SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import is_admin, needs, signed_in
from squinney.http.dependencies import service
from squinney.http.pages import redirect, render
from squinney.patterns import money
from squinney.transactions import Key

router = APIRouter(route_class=PageRoute)
Network = Annotated[AdNetwork, Depends(service("ads", "network", AdNetwork))]
Text = Annotated[str, Form()]


@router.get("/review", response_class=HTMLResponse, dependencies=[needs("editor")])
def show_queue(
    request: Request, network: Network, cursor: Annotated[str | None, Query(max_length=20_000)] = None
) -> Response:
    """Show the ads that wait for a review, oldest first."""
    return _queue(request, network, cursor=cursor)


def _queue(
    request: Request, network: Network, *, cursor: str | None = None, error: SquinneyError | None = None
) -> Response:
    return render(request, "ads/review.html", page=network.in_review(cursor=cursor, limit=25), error=error)


@router.post("/review/approve", response_class=HTMLResponse, dependencies=[needs("editor")])
def approve(request: Request, network: Network, site: Text, zone: Text, unit: Text, review_id: Text) -> Response:
    """Let an ad be shown."""
    try:
        network.approve(site, zone, unit, review_id=review_id, by=signed_in(request)["login"])
    except SquinneyError as error:
        return _queue(request, network, error=error)
    return redirect(request, "/ads/review", "The ad is approved.")


@router.post("/review/reject", response_class=HTMLResponse, dependencies=[needs("editor")])
def reject(
    request: Request, network: Network, site: Text, zone: Text, unit: Text, review_id: Text, reason: Text = ""
) -> Response:
    """Reject an ad; its owner sees the reason."""
    try:
        network.reject(site, zone, unit, reason, review_id=review_id, by=signed_in(request)["login"])
    except SquinneyError as error:
        return _queue(request, network, error=error)
    return redirect(request, "/ads/review", "The ad is rejected.")


@router.post("/fund/{campaign_id:path}", response_class=HTMLResponse)
def fund(
    request: Request, network: Network, campaign_id: str, amount: Text, key: Text, account_id: Text = ""
) -> Response:
    """Fund a campaign from an account or, as an admin, without a payment. A form sent twice counts once."""
    campaign = own_campaign(request, network, campaign_id)
    person = signed_in(request)
    try:
        minor = money.parsed(amount, campaign["budget"]["currency"], "amount")
        once = Key(key, f"web:{person['_id']}")
        if account_id:
            _pay(request, campaign_id, account_id, minor, once)
        # guard: only an admin funds without a payment
        elif is_admin(request):
            network.fund(campaign_id, minor, key=once, by=person["login"])
        else:
            raise Forbidden("only an admin may fund a campaign without a payment", field="account_id")
    except SquinneyError as error:
        return show_own(request, network, campaign_id, error=error, typed={"amount": amount, "key": key})
    return to_campaign(request, campaign_id, "The campaign is funded.")


def _pay(request: Request, campaign_id: str, account_id: str, amount: int, key: Key) -> None:
    payments = request.app.state.ad_payments
    if payments is None:
        raise Conflict("this site has no ledger to pay from")
    payments.pay(campaign_id, account_id, amount, owner=signed_in(request)["_id"], key=key)
