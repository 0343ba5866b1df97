"""The HTTP API of the advertising network."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field, ValidationError
from starlette.responses import JSONResponse, Response

from squinney.ads import (
    AdNetwork,
    BadServe,
    CampaignEnded,
    CampaignTaken,
    FundedEnough,
    ReviewChanged,
    ServeExpired,
    UnitTaken,
    UnknownAd,
    UnknownCampaign,
)
from squinney.ads.documents import MAX_BID, MAX_BUDGET, MAX_CAP, Campaign, Candidate, Click, Serve
from squinney.ads.surface import openrtb
from squinney.errors import LimitReached
from squinney.http.bodies import Body
from squinney.http.cursors import Cursor, Limit, SignCursor
from squinney.http.dependencies import IdempotencyKey, service
from squinney.http.error_responses import respond, responses
from squinney.http.response_models import list_of, model_of, page_of, signed_page
from squinney.http.routes import OneThreadRoute
from squinney.transactions import Busy, KeyReused

router = APIRouter(tags=["ads"], route_class=OneThreadRoute)
ads = APIRouter(prefix="/api/ads", route_class=OneThreadRoute)

# Who may create campaigns may not approve or fund them: those routes require a scope of their own.
SCOPES = {"ads-review": "ads-review"}
reviewing = APIRouter(prefix="/api/ads-review", route_class=OneThreadRoute)

Network = Annotated[AdNetwork, Depends(service("ads", "network", AdNetwork))]
MAX_CANDIDATES = 1_000
Time = Annotated[datetime, Field(strict=False)]  # in JSON, a string
Name = Annotated[str, Field(min_length=1, max_length=200)]
Words = Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=50)]


class PricingModel(Body):
    """The price in minor units: `cpm` for a thousand impressions, `cpc` for a click."""

    model: str = Field(pattern="^(cpm|cpc)$", examples=["cpm"])
    bid: int = Field(ge=1, le=MAX_BID, examples=[250])


class BudgetModel(Body):
    """The budget of a campaign, in minor units."""

    total: int = Field(ge=1, le=MAX_BUDGET, examples=[100_000])
    daily: int | None = Field(None, ge=1, le=MAX_BUDGET)
    currency: str = Field("EUR", pattern="^[A-Z]{3}$")
    pacing: str = Field("asap", pattern="^(asap|even)$")


class CapModel(Body):
    """The most impressions for one user within `per_seconds`."""

    impressions: int = Field(ge=1, le=MAX_CAP)
    per_seconds: int = Field(ge=1, le=90 * 86_400)


class TargetingModel(Body):
    """The sites and keywords that a campaign is limited to."""

    sites: list[Name] = Field([], max_length=1_000)
    keywords: Words = []


class NewCampaign(Body):
    """A campaign to create."""

    id: Name = Field(examples=["larch:boots"])
    advertiser: Name
    owner: Name | None = None
    pricing: PricingModel
    budget: BudgetModel
    cap: CapModel | None = None
    starts_at: Time | None = None
    ends_at: Time | None = None
    targeting: TargetingModel | None = None


class NewPlacement(Body):
    """An ad to put into a zone."""

    site: Name
    zone: Name
    unit: Name
    creative: dict[str, Any] = Field(
        description="`kind` (`text` or `image`), `url`, and `title` and `text`, or `image` and `alt`",
        examples=[{"kind": "text", "title": "Boots", "text": "For wet leaves", "url": "https://example.com"}],
    )
    keywords: Words = []
    weight: int = Field(1, ge=1, le=1_000)
    cap: CapModel | None = None
    active: bool = True


class ChoiceRequest(Body):
    """The zone, visitor and keywords of a choice."""

    site: Name
    zone: Name
    user: Name | None = None
    keywords: Words = []
    count: int = Field(1, ge=1, le=20)
    consent: bool = True


class Beacons(Body):
    """Serve ids from `choose`."""

    serve_ids: list[Annotated[str, Field(max_length=4_000)]] = Field(max_length=1_000)


class OneServe(Body):
    """A serve id from `choose`."""

    serve_id: str = Field(max_length=4_000)


class OneClick(OneServe):
    """A serve that was clicked, and a name of the visitor, whose repeated clicks on an ad count once for some time."""

    visitor: Name | None = None


class Conversion(OneServe):
    """A serve that led to a conversion, and the value of the conversion in minor units."""

    value: int = Field(0, ge=0, le=10**15)


_AS_STORED: Any = {"pricing": dict[str, Any], "budget": dict[str, Any], "cap": dict[str, Any] | None}
CampaignModel = model_of(Campaign, without=["changed_at"], **_AS_STORED)
CampaignPage = page_of(CampaignModel)
ServeModel = model_of(Serve)
CandidateModel = model_of(Candidate)
ClickModel = model_of(Click)


class ReviewModel(BaseModel):
    """The review of an ad: `waiting`, `approved` or `rejected`. An ad without one is approved."""

    id: str
    state: str
    at: datetime
    reason: str = ""
    by: str = ""


class Decision(Body):
    """The ad that was read, by its zone, unit and `review.id`."""

    site: Name
    zone: Name
    unit: Name
    review_id: Name


class Rejection(Decision):
    """The ad that is rejected, and why."""

    reason: Annotated[str, Field(min_length=1, max_length=500)]


class Grant(Body):
    """Money for a campaign, in minor units."""

    amount: int = Field(ge=1, le=MAX_BUDGET)


class PlacementModel(BaseModel):
    """An ad in a zone."""

    site: str
    zone: str
    unit: str
    campaign_id: str
    creative: dict[str, Any]
    keywords: list[str]
    weight: int
    cap: dict[str, Any] | None
    active: bool
    ecpm: int
    review: ReviewModel | None = None


class Stats(BaseModel):
    """What a campaign delivered. The `spend` of a row is in thousandths of a minor unit; `capped` counts cap hits."""

    campaign_id: str
    currency: str
    totals: dict[str, int]
    rows: list[dict[str, Any]]
    next: str | None


class Counted(BaseModel):
    """For each serve id, whether this was the first time."""

    first: list[bool]


class Once(BaseModel):
    """Whether this was the first time."""

    first: bool


def _placement(placement: Any) -> Any:
    key = placement["_id"]
    return {**placement, "site": key["site"], "zone": key["zone"], "unit": key["ad_unit"]}


@ads.post("/campaigns", status_code=201, response_model=CampaignModel, responses=responses(CampaignTaken, Busy))
def create_campaign(network: Network, body: NewCampaign) -> Any:
    """Create a campaign. Its ads wait for a review, and its budget for money."""
    given = body.model_dump(exclude_unset=True)
    campaign_id, advertiser = given.pop("id"), given.pop("advertiser")
    return network.create_campaign(campaign_id, advertiser, **given, review=True)


@ads.get("/campaigns", response_model=CampaignPage, responses=responses())
def list_campaigns(network: Network, sign: SignCursor, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List campaigns, ordered by id."""
    return signed_page(network.all(cursor=cursor, limit=limit), sign)


@ads.get("/campaigns/{campaign_id}", response_model=CampaignModel, responses=responses(UnknownCampaign))
def get_campaign(network: Network, campaign_id: str) -> Any:
    """Return a campaign."""
    return network.get(campaign_id)


@ads.post(
    "/campaigns/{campaign_id}/pause", response_model=CampaignModel, responses=responses(UnknownCampaign, CampaignEnded)
)
def pause_campaign(network: Network, campaign_id: str) -> Any:
    """Stop showing a campaign until it is resumed."""
    return network.pause(campaign_id)


@ads.post(
    "/campaigns/{campaign_id}/resume", response_model=CampaignModel, responses=responses(UnknownCampaign, CampaignEnded)
)
def resume_campaign(network: Network, campaign_id: str) -> Any:
    """Show a paused campaign again."""
    return network.resume(campaign_id)


@ads.post("/campaigns/{campaign_id}/deactivate", response_model=CampaignModel, responses=responses(UnknownCampaign))
def deactivate_campaign(network: Network, campaign_id: str) -> Any:
    """End a campaign permanently."""
    return network.deactivate(campaign_id)


@ads.post(
    "/campaigns/{campaign_id}/placements",
    response_model=PlacementModel,
    responses=responses(UnknownCampaign, CampaignEnded, UnitTaken, LimitReached),
)
def place(network: Network, campaign_id: str, body: NewPlacement) -> Any:
    """Put an ad into a zone, or change it. A new or changed creative is shown after a review."""
    ad = body.model_dump()
    return _placement(network.place(campaign_id, ad.pop("site"), ad.pop("zone"), ad, review=True))


@ads.get(
    "/campaigns/{campaign_id}/placements",
    response_model=list_of(PlacementModel),
    responses=responses(UnknownCampaign),
)
def list_placements(network: Network, campaign_id: str) -> Any:
    """List a campaign's ads, each with its review."""
    network.get(campaign_id)
    return [_placement(placement) for placement in network.placements(campaign_id)]


@reviewing.get("/waiting", response_model=page_of(PlacementModel), responses=responses())
def list_waiting(network: Network, sign: SignCursor, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List the ads that wait for a review, oldest first."""
    return signed_page(network.in_review(cursor=cursor, limit=limit).map(_placement), sign)


@reviewing.post("/approve", response_model=PlacementModel, responses=responses(UnknownAd, ReviewChanged))
def approve(network: Network, request: Request, body: Decision) -> Any:
    """Let an ad be shown."""
    return _placement(network.approve(body.site, body.zone, body.unit, review_id=body.review_id, by=_caller(request)))


@reviewing.post("/reject", response_model=PlacementModel, responses=responses(UnknownAd, ReviewChanged))
def reject(network: Network, request: Request, body: Rejection) -> Any:
    """Stop showing an ad until its creative is changed and approved."""
    where = (body.site, body.zone, body.unit, body.reason)
    return _placement(network.reject(*where, review_id=body.review_id, by=_caller(request)))


@reviewing.post(
    "/campaigns/{campaign_id}/grants",
    response_model=CampaignModel,
    responses=responses(UnknownCampaign, CampaignEnded, FundedEnough, KeyReused, Busy),
)
def grant(network: Network, request: Request, campaign_id: str, body: Grant, key: IdempotencyKey) -> Any:
    """Add money to what a campaign may spend."""
    return network.fund(campaign_id, body.amount, key=key, by=_caller(request))


def _caller(request: Request) -> str:
    return f"API key {request.state.key['_id']}"


@ads.get("/campaigns/{campaign_id}/stats", response_model=Stats, responses=responses(UnknownCampaign))
def read_stats(
    network: Network,
    sign: SignCursor,
    campaign_id: str,
    start: datetime | None = None,
    end: datetime | None = None,
    cursor: Cursor = None,
    limit: Limit = 200,
) -> Any:
    """Report what a campaign delivered: totals of the whole time, and rows per zone, unit and day, a page at a time."""
    delivered = network.stats(campaign_id, start, end, cursor=cursor, limit=limit)
    return {**delivered, "next": sign(delivered["next"])}


@ads.post("/choose", response_model=list_of(ServeModel), responses=responses(Busy))
def choose(network: Network, body: ChoiceRequest) -> Any:
    """Choose ads for a zone, best first."""
    return network.choose(**body.model_dump())


@ads.post("/explain", response_model=list_of(CandidateModel), responses=responses())
def explain(network: Network, body: ChoiceRequest) -> Any:
    """List the best thousand ads of a zone, each with its score and why it would not be chosen."""
    return network.explain(body.site, body.zone, user=body.user, keywords=body.keywords)[:MAX_CANDIDATES]


@ads.post("/impressions", response_model=Counted, responses=responses(Busy))
def count_impressions(network: Network, body: Beacons) -> Any:
    """Count impressions, each once. Forged and expired serve ids are not counted."""
    return {"first": network.impressions(body.serve_ids)}


@ads.post("/viewable", response_model=Once, responses=responses(BadServe, ServeExpired, Busy))
def count_viewable(network: Network, body: OneServe) -> Any:
    """Count once that half of an ad was visible for a second."""
    return {"first": network.viewable(body.serve_id)}


@ads.post("/clicks", response_model=ClickModel, responses=responses(BadServe, ServeExpired, Busy))
def count_click(network: Network, body: OneClick) -> Any:
    """Count a click, once, and return the URL that it leads to."""
    return network.click(body.serve_id, visitor=body.visitor or ())


@ads.post("/conversions", response_model=Once, responses=responses(BadServe, ServeExpired, Busy))
def count_conversion(network: Network, body: Conversion) -> Any:
    """Count a conversion, once."""
    return {"first": network.conversion(body.serve_id, body.value)}


@ads.delete("/users/{user}", response_model=Once, responses=responses())
def forget_user(network: Network, user: str) -> Any:
    """Delete a user's profile. `first` is true if there was one."""
    return {"first": network.forget(user)}


async def _raw(request: Request) -> bytes:
    return await request.body()


@ads.post(
    "/openrtb2",
    response_model=dict[str, Any],
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}},
    responses={**responses(Busy), 204: {"description": "No bid"}, 400: {"description": "Not a bid request"}},
)
def bid(network: Network, request: Request, body: Annotated[bytes, Depends(_raw)]) -> Any:
    """Answer an OpenRTB 2.6 banner bid request with a bid response, or with 204 for no bid."""
    try:
        bid_request = openrtb.read(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "body"
        return respond(400, "Bad Request", f"{field}: {first['msg']}", "invalid", {"field": field})
    response = openrtb.respond(network, bid_request, str(request.base_url).rstrip("/"))
    if response is None:
        return Response(status_code=204)
    return JSONResponse(response, headers={"x-openrtb-version": "2.6"})


router.include_router(ads)
router.include_router(reviewing)
