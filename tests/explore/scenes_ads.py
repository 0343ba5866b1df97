"""Concurrent operations of the advertising network: changing, serving and charging the same campaigns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from squinney import ads
from squinney.ads import AdNetwork
from squinney.ads.jobs import refresh_ecpm, return_leases
from squinney.mongo.schema import Db
from squinney.transactions import Mode
from tests.explore.scene import Act, Scene, transactions

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
SECRET = b"explore"
CREATIVE = {"kind": "text", "title": "t", "text": "", "url": "/"}
PRICING = {"model": "cpm", "bid": 500}
BUDGET = {"total": 100, "daily": 50, "currency": "EUR"}


def _network(db: Db, mode: Mode = "native") -> AdNetwork:
    return AdNetwork(db, secret=SECRET, transactions=transactions(db, mode))


def _create(network: AdNetwork, campaign: str, pricing: dict[str, Any] = PRICING) -> None:
    network.create_campaign(campaign, "Larch", pricing=pricing, budget=BUDGET)


def _served(db: Db, pricing: dict[str, Any] = PRICING) -> list[str]:
    """Serve one ad three times; the process still holds its lease."""
    network = _network(db)
    _create(network, "c", pricing)
    network.place("c", "news", "top", {"unit": "u", "creative": CREATIVE})
    return [network.choose("news", "top")[0].serve_id for _ in range(3)]


def _lapse(db: Db) -> None:
    db["ad_leases"].update_many({}, {"$set": {"until": LONG_AGO}})


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
    return lambda db, mode, state: change(_network(db, mode), state)


def _serve(db: Db, mode: Mode, state: Any) -> None:
    """Take a lease, serve an ad, and return the rest of the lease, as one process does."""
    with _network(db, mode) as network:
        network.choose("news", "top")


def _return_leases(db: Db, mode: Mode, state: Any) -> None:
    return_leases(db)


def _refresh_ecpm(db: Db, mode: Mode, state: Any) -> None:
    refresh_ecpm(db)


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
    "refresh eCPM": _refresh_ecpm,
}

SCENES = [
    Scene("ads", "ads", _served, OPERATIONS, modes=["native"], composed=["serve"], age=_lapse),
    Scene(
        "ads, lapsed",
        "ads",
        _lapsed,
        {**BEACONS, "serve": _serve, "return leases": _return_leases},
        modes=["native"],
        composed=["serve", "return leases"],
        age=_lapse,
    ),
    Scene("ads, per click", "ads", _served_per_click, PER_CLICK, modes=["native"], age=_lapse),
    Scene(
        "ads, repaired",
        "ads",
        _served,
        {name: OPERATIONS[name] for name in ("impressions", "click")},
        modes=["native"],
        between=[ads.repair],
        age=_lapse,
    ),
]
