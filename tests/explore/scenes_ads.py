"""Concurrent operations of the advertising network: changing, serving and charging the same campaigns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from squinney import ads
from squinney.ads import AdNetwork
from squinney.ads.jobs import refresh_ecpm, return_leases
from squinney.mongo.schema import Db
from tests.explore.scene import Act, Scene

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
SECRET = b"explore"
CREATIVE = {"kind": "text", "title": "t", "text": "", "url": "/"}
PRICING = {"model": "cpm", "bid": 500}
BUDGET = {"total": 100, "daily": 50, "currency": "EUR"}


def _network(db: Db) -> AdNetwork:
    return AdNetwork(db, secret=SECRET)


def _create(network: AdNetwork, campaign: str, pricing: dict[str, Any] = PRICING) -> None:
    network.create_campaign(campaign, "Larch", pricing=pricing, budget=BUDGET)


def _served(db: Db, pricing: dict[str, Any] = PRICING) -> list[str]:
    """Serve one ad three times; the process still holds its lease."""
    network = _network(db)
    _create(network, "c", pricing)
    network.place("c", "news", "top", {"unit": "u", "creative": CREATIVE})
    return [network.choose("news", "top")[0].serve_id for _ in range(3)]


def _to_review(db: Db) -> str:
    """Place an ad that waits for a review, in a campaign with some money."""
    network = _network(db)
    network.create_campaign("c", "Larch", pricing=PRICING, budget=BUDGET, review=True)
    network.place("c", "news", "top", {"unit": "u", "creative": CREATIVE})
    network.fund("c", 40)
    return network.in_review().items[0]["review"]["id"]


def _lapse(db: Db) -> None:
    db["ads.leases"].update_many({}, {"$set": {"until": LONG_AGO}})


def _lapsed(db: Db) -> list[str]:
    served = _served(db)
    _lapse(db)
    return served


def _served_per_click(db: Db) -> list[str]:
    """Serve an ad that is paid for by click; one of its serves was clicked."""
    served = _served(db, {"model": "cpc", "bid": 5})
    _network(db).click(served[1])
    return served


def _on(change: Callable[[AdNetwork, Any], object]) -> Act:
    return lambda db, state: change(_network(db), state)


def _serve(db: Db, state: Any) -> None:
    """Take a lease, serve an ad, and return the rest of the lease, as one process does."""
    with _network(db) as network:
        network.choose("news", "top")


BEACONS: dict[str, Act] = {
    "impressions": _on(lambda network, served: network.impressions(served)),
    "impression": _on(lambda network, served: network.impression(served[0])),
    "click": _on(lambda network, served: network.click(served[0])),
}
OPERATIONS: dict[str, Act] = {
    "create": _on(lambda network, served: _create(network, "d")),
    "place": _on(lambda network, served: network.place("c", "news", "side", {"unit": "v", "creative": CREATIVE})),
    "pause": _on(lambda network, served: network.pause("c")),
    "end": _on(lambda network, served: network.deactivate("c")),
    "serve": _serve,
    **BEACONS,
}
PER_CLICK: dict[str, Act] = {
    "viewable": _on(lambda network, served: network.viewable(served[0])),
    "conversion": _on(lambda network, served: network.conversion(served[0], 700)),
    "click": BEACONS["click"],
    "place again": _on(lambda network, served: network.place("c", "news", "top", {"unit": "u", "creative": CREATIVE})),
    "end": OPERATIONS["end"],
    "refresh eCPM": lambda db, state: refresh_ecpm(db),
}

REVIEW: dict[str, Act] = {
    "approve": _on(lambda network, review: network.approve("news", "top", "u", review_id=review)),
    "reject": _on(lambda network, review: network.reject("news", "top", "u", "no", review_id=review)),
    "change": _on(
        lambda network, review: network.place(
            "c", "news", "top", {"unit": "u", "creative": {**CREATIVE, "title": "other"}}, review=True
        )
    ),
    "fund": _on(lambda network, review: network.fund("c", 40)),
    "fund again": _on(lambda network, review: network.fund("c", 40, key="payment")),
    "end": OPERATIONS["end"],
}

SCENES = [
    Scene("ads, reviewed", "ads", _to_review, REVIEW, age=_lapse),
    Scene("ads", "ads", _served, OPERATIONS, composed=["serve"], age=_lapse),
    Scene(
        "ads, lapsed",
        "ads",
        _lapsed,
        {**BEACONS, "serve": _serve, "return leases": lambda db, state: return_leases(db)},
        composed=["serve", "return leases"],
        age=_lapse,
    ),
    Scene("ads, per click", "ads", _served_per_click, PER_CLICK, age=_lapse),
    Scene(
        "ads, repaired",
        "ads",
        _served,
        {name: OPERATIONS[name] for name in ("impressions", "click")},
        between=[ads.repair],
        age=_lapse,
    ),
]
