"""Tests of the shop's HTTP API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from squinney.system import Assembled

PRICING = {"list": 1_000, "retail": 800, "currency": "EUR"}
API = "/api/commerce"
ONCE = {"Idempotency-Key": "k"}


@pytest.fixture
def shop(site: TestClient) -> TestClient:
    """A shop with two products and a small tree."""
    jazz = ok(site.post(f"{API}/categories", json={"name": "Music"}), 201)
    jazz = ok(site.post(f"{API}/categories", json={"name": "Jazz", "parent": "music"}), 201)
    for sku, units in (("a", 5), ("b", 1)):
        product = {
            "_id": sku,
            "type": "Film",
            "title": f"Film {sku}",
            "pricing": PRICING,
            "category_ids": [jazz["id"]],
            "details": {"genre": ["Crime"], "actor": ["Ida"]},
            "properties": {"Format": "DVD", "Discs": 2},
        }
        assert ok(site.post(f"{API}/products", json=product), 201)["pricing"]["pct_savings"] == 20
        ok(site.post(f"{API}/stock/{sku}/receipts", json={"qty": units}))
    return site


def ok(response: Any, status: int = 200) -> Any:
    """Return the body of a successful response."""
    assert response.status_code == status, response.text
    return response.json()


def refused(response: Any) -> tuple[int, str]:
    """Return the status and the code of a problem response."""
    return response.status_code, response.json()["code"]


def test_a_program_browses(shop: TestClient) -> None:
    first = ok(shop.get(f"{API}/products", params={"genre": "Crime", "sort": "price", "limit": 1}))
    second = ok(shop.get(f"{API}/products", params={"genre": "Crime", "sort": "price", "cursor": first["next"]}))
    assert [item["id"] for item in [*first["items"], *second["items"]]] == ["a", "b"]
    assert len(ok(shop.get(f"{API}/products", params={"property": "Format:DVD"}))["items"]) == 2
    assert len(ok(shop.get(f"{API}/products", params={"property": ["Format:DVD", "Discs:2"]}))["items"]) == 2
    assert ok(shop.get(f"{API}/products", params={"property": 'Discs:"2"'}))["items"] == []
    assert len(ok(shop.get(f"{API}/products", params={"price_from": 900}))["items"]) == 0
    assert len(ok(shop.get(f"{API}/products", params={"words": "film"}))["items"]) == 2
    facets = ok(shop.get(f"{API}/facets", params={"by": ["genre", "actor"], "type": "Film"}))
    assert (facets["total"], facets["genre"]) == (2, [{"value": "Crime", "count": 2}])
    one = ok(shop.get(f"{API}/products/a"))
    assert [ancestor["name"] for ancestor in one["categories"][0]["ancestors"]] == ["Music"]
    below = ok(shop.get(f"{API}/categories/music/products", params={"sort": "-title", "type": "Film"}))["items"]
    assert [item["id"] for item in below] == ["b", "a"]
    patched = ok(shop.patch(f"{API}/products/a", json={"changes": {"title": "New"}, "expected_version": 1}))
    assert patched["version"] == 2
    assert refused(shop.get(f"{API}/products", params={"genre": "x", "actor": "y"})) == (422, "invalid")
    assert refused(shop.get(f"{API}/products/nothing")) == (404, "unknown-product")
    assert shop.delete(f"{API}/products/a").status_code == 204


def test_a_program_buys(shop: TestClient) -> None:
    carts = [ok(shop.post(f"{API}/carts", json={"customer": "ada"}, headers=ONCE), 201)["id"] for _ in range(2)]
    cart = carts[0]
    assert carts == [cart, cart]
    assert refused(shop.post(f"{API}/carts", json={"customer": "ben"}, headers=ONCE)) == (409, "key-reused")
    body = {"sku": "a", "qty": 2}
    for _ in range(2):
        held = ok(shop.post(f"{API}/carts/{cart}/items", json=body, headers=ONCE))
    assert held["items"][0]["qty"] == 2
    assert refused(shop.post(f"{API}/carts/{cart}/items", json={"sku": "b", "qty": 2})) == (409, "inadequate-inventory")
    assert ok(shop.put(f"{API}/carts/{cart}/items/a", json={"qty": 3}))["items"][0]["qty"] == 3
    assert ok(shop.get(f"{API}/stock/a"))["carted"] == 3
    order = ok(shop.post(f"{API}/carts/{cart}/checkout", headers={"Idempotency-Key": "k"}))
    assert (order["id"], order["total"], order["customer"]) == (cart, 2_400, "ada")
    assert ok(shop.post(f"{API}/carts/{cart}/checkout", headers={"Idempotency-Key": "k"})) == order
    assert refused(shop.post(f"{API}/carts/{cart}/checkout", headers={"Idempotency-Key": "other"})) == (
        409,
        "cart-closed",
    )
    assert shop.post(f"{API}/carts/{cart}/checkout").status_code == 422, "without a key nothing is charged"
    assert ok(shop.get(f"{API}/orders", params={"customer": "ada"}))["items"] == [order]
    assert refused(shop.put(f"{API}/orders/{cart}/items/a", json={"qty": 1})) == (409, "order-fixed")
    assert ok(shop.post(f"{API}/orders/{cart}/cancel"))["status"] == "cancelled"
    assert ok(shop.get(f"{API}/stock/a"))["qty"] == 5
    kinds = [move["kind"] for move in ok(shop.get(f"{API}/stock/a/movements"))["items"]]
    assert sorted(kinds) == ["received", "restocked", "sold"]
    other = ok(shop.post(f"{API}/carts", json={}), 201)["id"]
    ok(shop.post(f"{API}/carts/{other}/items", json=body))
    for _ in range(2):
        assert ok(shop.delete(f"{API}/carts/{other}/items/a", headers=ONCE))["items"] == []
    assert refused(shop.delete(f"{API}/carts/{other}/items/a")) == (404, "unknown-line")
    assert ok(shop.post(f"{API}/carts/{other}/abandon"))["status"] == "expired"
    assert [one["id"] for one in ok(shop.get(f"{API}/carts", params={"status": "expired"}))["items"]] == [other]


def test_a_sku_may_have_slashes(site: TestClient) -> None:
    sku = "AC/DC"
    ok(site.post(f"{API}/products", json={"_id": sku, "type": "Film", "title": "T", "pricing": PRICING}), 201)
    assert ok(site.post(f"{API}/stock/{sku}/receipts", json={"qty": 3}))["id"] == sku
    assert ok(site.get(f"{API}/stock/{sku}"))["qty"] == 3
    assert [move["sku"] for move in ok(site.get(f"{API}/stock/{sku}/movements"))["items"]] == [sku]
    assert ok(site.get(f"{API}/products/AC%2FDC"))["id"] == sku
    cart = ok(site.post(f"{API}/carts", json={}), 201)["id"]
    ok(site.post(f"{API}/carts/{cart}/items", json={"sku": sku}))
    assert ok(site.put(f"{API}/carts/{cart}/items/{sku}", json={"qty": 2}))["items"][0]["qty"] == 2
    assert ok(site.delete(f"{API}/carts/{cart}/items/AC%2FDC"))["items"] == []
    assert site.get(f"/shop/products/{sku}", headers={"Accept": "text/html"}).status_code == 200


def test_a_slash_that_is_part_of_a_sku_is_not_one_of_the_address(site: TestClient) -> None:
    for sku in ("a", "a/movements"):
        ok(site.post(f"{API}/products", json={"_id": sku, "type": "Film", "title": "T", "pricing": PRICING}), 201)
        ok(site.post(f"{API}/stock/{quote(sku, safe='')}/receipts", json={"qty": 3}))
    assert ok(site.get(f"{API}/stock/a%2Fmovements"))["id"] == "a/movements"
    assert [move["sku"] for move in ok(site.get(f"{API}/stock/a/movements?limit=5"))["items"]] == ["a"]
    moves = ok(site.get(f"{API}/stock/a%2Fmovements/movements"))["items"]
    assert [move["sku"] for move in moves] == ["a/movements"]
    assert refused(site.post(f"{API}/stock/nothing/receipts", json={"qty": 1})) == (404, "unknown-product")


def test_a_refund_at_the_provider_is_reported(shop: TestClient, systems: Assembled) -> None:
    cart = ok(shop.post(f"{API}/carts", json={}), 201)["id"]
    ok(shop.post(f"{API}/carts/{cart}/items", json={"sku": "a", "qty": 2}))
    ok(shop.post(f"{API}/carts/{cart}/checkout", headers=ONCE))
    assert ok(shop.post(f"{API}/payments/{cart}:1/settle"))["state"] == "captured"
    systems.db["commerce.test_charges"].update_one({}, {"$set": {"state": "refunded"}})
    assert ok(shop.post(f"{API}/payments/{cart}:1/settle"))["state"] == "refunded"
    assert ok(shop.get(f"{API}/orders/{cart}"))["status"] == "cancelled"
    assert refused(shop.post(f"{API}/payments/nothing:1/settle")) == (404, "unknown-payment")


def test_a_program_keeps_orders_and_stock(shop: TestClient) -> None:
    line = {"sku": "x", "price": 10, "qty": 2}
    order = ok(shop.post(f"{API}/orders", json={"items": [line]}), 201)["id"]
    assert ok(shop.post(f"{API}/orders/{order}/items", json={**line, "sku": "y"}))["total"] == 40
    assert ok(shop.put(f"{API}/orders/{order}/items/x", json={"qty": 5}))["total"] == 70
    assert ok(shop.delete(f"{API}/orders/{order}/items/y"))["total"] == 50
    assert ok(shop.get(f"{API}/orders/{order}"))["total"] == 50
    assert shop.delete(f"{API}/orders/{order}").status_code == 204
    assert ok(shop.post(f"{API}/stock/a/adjustments", json={"delta": -1, "reason": "lost"}))["qty"] == 4


def test_a_program_edits_the_tree(shop: TestClient) -> None:
    ok(shop.post(f"{API}/categories", json={"name": "Films"}), 201)
    moved = ok(shop.post(f"{API}/categories/jazz/move", json={"parent": "films"}))
    assert [ancestor["slug"] for ancestor in moved["ancestors"]] == ["films"]
    assert refused(shop.post(f"{API}/categories/films/move", json={"parent": "jazz"})) == (409, "cycle")
    assert ok(shop.patch(f"{API}/categories/jazz", json={"name": "Jazz!"}))["name"] == "Jazz!"
    assert ok(shop.patch(f"{API}/categories/jazz", json={"slug": "jass"}))["slug"] == "jass"
    assert refused(shop.patch(f"{API}/categories/jass", json={}))[0] == 422
    assert [one["slug"] for one in ok(shop.get(f"{API}/categories"))["items"]] == ["music", "films"]
    assert ok(shop.get(f"{API}/categories/jass"))["name"] == "Jazz!"
    assert refused(shop.delete(f"{API}/categories/films")) == (409, "category-not-empty")
    assert ok(shop.delete(f"{API}/categories/films", params={"children": "cascade"})) == {"removed": 2}


def test_the_longest_titles_are_paged(site: TestClient) -> None:
    """A cursor with such a title and its SKU must fit into a URL."""
    for number in range(3):
        film = {"_id": "\U0001f43f" * 199 + str(number), "type": "Film", "title": "\U0001f43f" * 1_000}
        ok(site.post(f"{API}/products", json={**film, "pricing": PRICING}), 201)
    asked: dict[str, Any] = {"sort": "title", "limit": 1}
    for _ in range(2):
        asked["cursor"] = ok(site.get(f"{API}/products", params=asked))["next"]
    assert ok(site.get(f"{API}/products", params=asked))["next"] is None


def test_requests_with_the_same_key_take_effect_once(shop: TestClient) -> None:
    film = {"_id": "new", "type": "Film", "title": "New", "pricing": PRICING}
    line = {"sku": "x", "price": 10, "qty": 2}
    order = ok(shop.post(f"{API}/orders", json={"items": [line]}), 201)["id"]
    writes: list[tuple[str, str, Any]] = [
        ("POST", "products", film),
        ("POST", "categories", {"name": "Blues"}),
        ("POST", "categories/blues/move", {"parent": "music"}),
        ("POST", f"orders/{order}/items", line),
        ("PUT", f"orders/{order}/items/x", {"qty": 3}),
        ("DELETE", f"orders/{order}/items/x", None),
    ]
    for method, path, body in writes:
        first, again = (shop.request(method, f"{API}/{path}", json=body, headers=ONCE) for _ in range(2))
        assert (first.is_success, again.status_code, again.json()) == (True, first.status_code, first.json()), path
    assert refused(shop.post(f"{API}/orders/{order}/items", json={**line, "qty": 5}, headers=ONCE)) == (
        409,
        "key-reused",
    )
    assert ok(shop.get(f"{API}/orders/{order}"))["version"] == 4
    assert [one["name"] for one in ok(shop.get(f"{API}/categories"))["items"]] == ["Music"]


BAD: list[tuple[str, str, Any]] = [
    ("post", "products", {"_id": {"$gt": ""}}),
    ("post", "products", {"_id": "x", "type": "Film", "title": "x", "pricing": PRICING, "$set": 1}),
    ("post", "products", [1]),
    ("post", "carts/nobody/items", {"sku": {"$gt": ""}}),
    ("post", "carts/nobody/items", {"sku": "a", "qty": 0}),
    ("post", "carts/nobody/items", {"sku": "a", "qty": 1, "extra": 1}),
    ("post", "stock/a/receipts", {"qty": "5"}),
    ("post", "stock/a/adjustments", {"delta": 1, "reason": ""}),
    ("post", "orders", {"items": []}),
    ("post", "categories", {"name": ""}),
    ("post", "categories", {"name": "x", "slug": "Not A Slug"}),
    ("patch", "products/a", {"changes": {"_id": "b"}}),
]


@pytest.mark.parametrize(("method", "path", "body"), BAD, ids=[f"{path}-{n}" for n, (_, path, _) in enumerate(BAD)])
def test_bad_input_is_refused(site: TestClient, method: str, path: str, body: Any) -> None:
    assert site.request(method, f"{API}/{path}", json=body).status_code == 422
