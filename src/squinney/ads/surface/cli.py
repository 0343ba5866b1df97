"""`squinney ads`: manage campaigns, show reports and simulate traffic from the command line."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Annotated, Any, cast

import typer
from rich.progress import Progress
from rich.table import Column, Table

from squinney.ads import AdNetwork, Campaign, Placement
from squinney.ads.documents import THOUSAND
from squinney.cli.connecting import open_systems
from squinney.cli.parameters import Cursor, Json, Limit
from squinney.cli.printing import console, print_json, print_page, print_result
from squinney.patterns.money import formatted
from squinney.patterns.paging import Page
from squinney.system import Assembled

app = typer.Typer(help="Campaigns, their ads and their delivery.", no_args_is_help=True)

CLICK_RATE = 0.01
BATCH = 100
COUNTS = ("impressions", "clicks", "conversions", "capped")


def _network(systems: Assembled) -> AdNetwork:
    return cast(AdNetwork, systems.services["ads"]["network"])


@app.command()
def campaign(
    context: typer.Context,
    campaign_id: Annotated[str, typer.Argument(help="The id of the new campaign, such as larch:boots.")],
    advertiser: Annotated[str, typer.Argument(help="The name of the advertiser.")],
    bid: Annotated[
        int, typer.Option(help="The price in minor units, for a thousand impressions (cpm) or a click (cpc).")
    ],
    total: Annotated[int, typer.Option(help="The total budget, in minor units.")],
    model: Annotated[str, typer.Option(help="cpm: pay for impressions; cpc: pay for clicks.")] = "cpm",
    daily: Annotated[int | None, typer.Option(help="The daily budget, in minor units; none: no daily limit.")] = None,
    currency: Annotated[str, typer.Option(help="Three letters, such as EUR.")] = "EUR",
    cap: Annotated[int | None, typer.Option(help="The most impressions per day for one user.")] = None,
    owner: Annotated[str | None, typer.Option(help="The id of the user who manages it.")] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Its ads need a review, and its budget needs money.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a campaign."""
    with open_systems(context) as systems:
        made = _network(systems).create_campaign(
            campaign_id,
            advertiser,
            pricing={"model": model, "bid": bid},
            budget={"total": total, "daily": daily, "currency": currency},
            cap={"impressions": cap, "per_seconds": 86_400} if cap is not None else None,
            owner=owner,
            review=review,
        )
    funded = made.get("funded", total)
    print_result(made, f"{campaign_id} is active, with {formatted(funded, currency)}", as_json)


@app.command()
def place(
    context: typer.Context,
    campaign_id: str,
    site: str,
    zone: str,
    unit: str,
    url: Annotated[str, typer.Option(help="The URL that a click leads to.")],
    title: Annotated[str, typer.Option(help="The title of the ad.")],
    text: Annotated[str, typer.Option(help="The text of the ad.")] = "",
    keyword: Annotated[list[str] | None, typer.Option(help="A keyword of the ad; repeat for more.")] = None,
    weight: Annotated[int, typer.Option(help="How often it is chosen among ads with the same score.")] = 1,
    as_json: Json = False,
) -> None:
    """Put a text ad into a zone, or change it."""
    creative = {"kind": "text", "title": title, "text": text, "url": url}
    ad = {"unit": unit, "creative": creative, "keywords": keyword or [], "weight": weight}
    with open_systems(context) as systems:
        placed = _network(systems).place(campaign_id, site, zone, ad)
    print_result(placed, f"{unit} is in {zone} of {site}", as_json)


@app.command()
def review(context: typer.Context, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List the ads that wait for a review, oldest first."""
    with open_systems(context) as systems:
        page = _network(systems).in_review(cursor=cursor, limit=limit)

    def row(document: Placement) -> list[str]:
        key, creative = document["_id"], document["creative"]
        text = f"{creative.get('title') or creative.get('alt')} {creative.get('text', '')}".strip()
        return [document["review"]["id"], key["site"], key["zone"], key["ad_unit"], text, creative["url"]]

    columns = Column("review", no_wrap=True), "site", "zone", "unit", "text", "destination"
    print_page(page, as_json, columns, row)


ReviewId = Annotated[str, typer.Argument(help="The id of the review, as `squinney ads review` shows it.")]


@app.command()
def approve(
    context: typer.Context, site: str, zone: str, unit: str, review_id: ReviewId, as_json: Json = False
) -> None:
    """Let an ad be shown."""
    with open_systems(context) as systems:
        decided = _network(systems).approve(site, zone, unit, review_id=review_id, by="command line")
    print_result(decided, f"{unit} is approved", as_json)


@app.command()
def reject(
    context: typer.Context,
    site: str,
    zone: str,
    unit: str,
    reason: Annotated[str, typer.Option(help="Why, for the owner of the campaign.")],
    as_json: Json = False,
) -> None:
    """Stop showing an ad until it is changed and approved."""
    with open_systems(context) as systems:
        decided = _network(systems).reject(site, zone, unit, reason, by="command line")
    print_result(decided, f"{unit} is rejected", as_json)


@app.command()
def fund(
    context: typer.Context,
    campaign_id: str,
    amount: Annotated[int, typer.Argument(help="The amount, in minor units.")],
    key: Annotated[str | None, typer.Option(help="A repeat with the same key changes nothing.")] = None,
    as_json: Json = False,
) -> None:
    """Grant a campaign money that it may spend."""
    with open_systems(context) as systems:
        funded = _network(systems).fund(campaign_id, amount, key=key, by="command line")
    total = formatted(funded.get("funded", 0), funded["budget"]["currency"])
    print_result(funded, f"{campaign_id} is funded with {total}", as_json)


@app.command("list")
def list_campaigns(context: typer.Context, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List campaigns with what they have spent."""
    with open_systems(context) as systems:
        page = _network(systems).all(cursor=cursor, limit=limit)
        money = _network(systems).money(item["_id"] for item in page.items)

    def row(document: Campaign) -> list[str]:
        budget = document["budget"]
        spent = formatted(money[document["_id"]]["spent"] // THOUSAND, budget["currency"])
        return [document["_id"], document["status"], spent, formatted(budget["total"], budget["currency"])]

    columns = Column("id", no_wrap=True), "status", Column("spent", justify="right"), Column("of", justify="right")
    print_page(page, as_json, columns, row)


@app.command()
def pause(context: typer.Context, campaign_id: str, as_json: Json = False) -> None:
    """Stop showing a campaign until it is resumed."""
    with open_systems(context) as systems:
        changed = _network(systems).pause(campaign_id)
    print_result(changed, f"{campaign_id} is paused", as_json)


@app.command()
def resume(context: typer.Context, campaign_id: str, as_json: Json = False) -> None:
    """Show a paused campaign again."""
    with open_systems(context) as systems:
        changed = _network(systems).resume(campaign_id)
    print_result(changed, f"{campaign_id} is active", as_json)


@app.command()
def end(context: typer.Context, campaign_id: str, as_json: Json = False) -> None:
    """End a campaign permanently."""
    with open_systems(context) as systems:
        changed = _network(systems).deactivate(campaign_id)
    print_result(changed, f"{campaign_id} has ended", as_json)


@app.command()
def stats(
    context: typer.Context, campaign_id: str, cursor: Cursor = None, limit: Limit = 200, as_json: Json = False
) -> None:
    """Show what a campaign delivered, by day, zone and ad, and in total."""
    with open_systems(context) as systems:
        listed = _network(systems).stats(campaign_id, cursor=cursor, limit=limit)
    if as_json:
        print_json(listed)
        return

    def row(counts: dict[str, Any], spend: int, *texts: str) -> list[str]:
        spent = formatted(spend // THOUSAND, listed["currency"])
        return [*texts, *(f"{counts[name]:,}" for name in COUNTS), spent]

    rows = [
        row(counts, counts["spend"], f"{counts['day']:%Y-%m-%d}", f"{counts['site']} {counts['zone']}", counts["unit"])
        for counts in listed["rows"]
    ]
    rows.append(row(listed["totals"], listed["totals"]["spend_thousandths"], "total", "", ""))
    columns = [*map(Column, ("day", "zone", "ad")), *(Column(name, justify="right") for name in (*COUNTS, "spend"))]
    print_page(Page(rows, listed["next"]), False, columns, list)


@app.command()
def simulate(
    context: typer.Context,
    site: str,
    zone: str,
    visits: Annotated[int, typer.Option(help="The number of visits.", min=1, max=10_000_000)] = 1_000,
    users: Annotated[int, typer.Option(help="The number of different visitors.", min=1)] = 500,
    click_rate: Annotated[
        float, typer.Option(help="The share of impressions that are clicked, 0 to 1.", min=0, max=1)
    ] = CLICK_RATE,
    seed: Annotated[int | None, typer.Option(help="A number that makes the simulation repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate visits to a zone with impressions and clicks, and show what was spent of the budgets."""
    rng = random.Random(seed)
    with open_systems(context) as systems, _network(systems) as network:
        began = time.monotonic()
        served: Counter[str] = Counter()
        with Progress(console=console, disable=as_json, transient=True) as progress:
            task = progress.add_task("visits", total=visits)
            for start in range(0, visits, BATCH):
                size = min(BATCH, visits - start)
                served.update(_visits(network, site, zone, size, users, click_rate, rng))
                progress.advance(task, size)
        seconds = time.monotonic() - began
        money = network.money(served)
        budgets = {campaign_id: network.get(campaign_id)["budget"] for campaign_id in served}
    delivered: list[dict[str, Any]] = [
        {
            "campaign_id": name,
            "served": count,
            "spent": money[name]["spent"] // THOUSAND,
            "total": budgets[name]["total"],
        }
        for name, count in served.items()
    ]
    if as_json:
        print_json({"visits": visits, "seconds": round(seconds, 3), "campaigns": delivered})
        return
    table = Table(
        Column("campaign", no_wrap=True), *(Column(name, justify="right") for name in ("served", "spent", "of", ""))
    )
    for row in delivered:
        currency = budgets[row["campaign_id"]]["currency"]
        table.add_row(
            row["campaign_id"],
            f"{row['served']:,}",
            formatted(row["spent"], currency),
            formatted(row["total"], currency),
            f"{row['spent'] / row['total']:.1%}",
        )
    console.print(table)
    console.print(f"{visits:,} visits in {seconds:.1f} s", highlight=False)


def _visits(
    network: AdNetwork, site: str, zone: str, size: int, users: int, click_rate: float, rng: random.Random
) -> list[str]:
    """Simulate `size` visits; return the campaign of each ad shown, after its beacons are settled."""
    visitors = (f"visitor {rng.randrange(users)}" for _ in range(size))
    serves = [serve for visitor in visitors for serve in network.choose(site, zone, user=visitor)]
    network.impressions([serve.serve_id for serve in serves])
    for serve in serves:
        if rng.random() < click_rate:
            network.click(serve.serve_id)
    return [serve.campaign_id for serve in serves]
