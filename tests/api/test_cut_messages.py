"""A duplicate of a long id that is not ASCII is a conflict, although the server cuts its message inside a character."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from squinney.assembly import Assembled
from squinney.errors import Conflict

# The message is cut after a number of bytes: one of three beginnings has the cut inside a character.
LONG = ["a" * number + "日本語" * 60 for number in range(3)]
CREATIVE = {"kind": "text", "title": "Boots", "text": "", "url": "https://larch.example/"}


@pytest.mark.parametrize("long", LONG, ids=range(3))
def test_a_campaign_and_its_ad_unit_are_taken(site: TestClient, long: str):
    terms = {"advertiser": "Larch", "pricing": {"model": "cpm", "bid": 250}, "budget": {"total": 10_000}}
    assert site.post("/api/ads/campaigns", json={"id": long, **terms}).status_code == 201
    again = site.post("/api/ads/campaigns", json={"id": long, **terms})
    assert (again.status_code, again.json()["code"]) == (409, "campaign-taken"), again.text
    assert site.post("/api/ads/campaigns", json={"id": "other", **terms}).status_code == 201
    ad = {"site": long, "zone": long, "unit": long, "creative": CREATIVE}
    placed = site.post("/api/ads/campaigns/other/placements", json=ad)
    assert placed.status_code == 200, placed.text
    taken = site.post(f"/api/ads/campaigns/{long}/placements", json=ad)
    assert (taken.status_code, taken.json()["code"]) == (409, "unit-taken"), taken.text


def _character(systems: Assembled, long: str, key: str) -> object:
    world = systems.services["game"]["world"]
    if systems.db["game.locations"].find_one({"_id": "hall"}) is None:
        world.create_location("hall", description="A hall.")
    return world.create_character(f"Ada{key}", location="hall", id=long)


def _product(systems: Assembled, long: str, key: str) -> object:
    pricing = {"list": 100, "retail": 100, "currency": "EUR"}
    product = {"_id": long, "type": "Film", "title": "Tea", "pricing": pricing}
    return systems.services["commerce"]["catalog"].add(product, key=key)


DOORS: dict[str, Callable[[Assembled, str, str], object]] = {
    "rooms": lambda systems, long, key: systems.services["game"]["world"].create_location(
        long, description="A hall.", key=key
    ),
    "characters": _character,
    "products": _product,
}


@pytest.mark.parametrize("long", LONG, ids=range(3))
@pytest.mark.parametrize("door", DOORS)
def test_a_second_one_is_refused(systems: Assembled, door: str, long: str):
    DOORS[door](systems, long, "a")
    with pytest.raises(Conflict):
        DOORS[door](systems, long, "b")
