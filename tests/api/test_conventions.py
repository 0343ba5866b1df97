"""Conventions of all API routes: unknown query parameters, methods, ids, and bodies that round-trip from GET."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.api.test_every_route import all_routes
from tests.sizes import heavy, todays

from squinney import assembly

API = "/api/commerce"
PRICING = {"list": 1_500, "retail": 1_200, "currency": "EUR"}
HEALTH = ("/healthz", "/readyz", "/metrics", "/api/openapi.json")
PAGE = "/api/docs"


def test_every_route_of_the_api_refuses_unknown_query_parameters(site: TestClient) -> None:
    for method, path in all_routes(site.app):  # type: ignore[arg-type]
        if path in HEALTH or path == PAGE or not path.startswith(("/api/", "/openrtb2")):
            continue
        response = site.request(method, f"{path}?unknown_parameter=1")
        assert response.status_code == 422, (method, path, response.text)
        assert "unknown_parameter" in response.text, (method, path)


def test_an_unknown_filter_is_refused_instead_of_ignored(site: TestClient) -> None:
    for path in (f"{API}/products?brnd=Acme", f"{API}/orders?status=placed"):
        response = site.get(path)
        assert (response.status_code, response.json()["code"]) == (422, "invalid")
    assert site.get(f"{API}/products?type=Film").status_code == 200


def test_pages_accept_campaign_parameters(site: TestClient) -> None:
    assert site.get("/shop?utm_source=letter&fbclid=1").status_code == 200
    assert site.get(f"{API}/products?utm_source=letter").status_code == 422


@heavy
def test_405_names_every_method_of_the_path(site: TestClient) -> None:
    methods: dict[str, set[str]] = {}
    for method, path in all_routes(site.app):  # type: ignore[arg-type]
        methods.setdefault(path, set()).add(method)
    tried = 0
    for path in todays(sorted(methods), of=4):
        response = site.request("TRACE", path)
        if response.status_code != 405:
            continue
        allowed = set(response.headers["allow"].split(", "))
        assert methods[path] <= allowed, path
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - methods[
            path
        ]:  # other tests call the route's own methods
            tried += 1
            assert (site.request(method, path).status_code == 405) == (method not in allowed), (method, path)
        assert ("HEAD" in allowed) == ("GET" in allowed)
    assert tried > 50
    shared = site.request("PUT", f"{API}/products")
    assert (shared.status_code, shared.headers["allow"]) == (405, "GET, HEAD, POST")


def product(**more: Any) -> dict[str, Any]:
    details = {"genre": ["Jazz"], "issue_date": "1959-08-17"}
    return {"id": "album", "type": "Audio Album", "title": "Album", "pricing": PRICING, "details": details, **more}


def test_an_unknown_category_is_not_found(site: TestClient) -> None:
    jazz = site.post(f"{API}/categories", json={"name": "Jazz", "slug": "jazz"}).json()
    site.post(f"{API}/products", json=product(category_ids=[jazz["id"]]))
    for named in (jazz["id"], "jazz"):
        found = site.get(f"{API}/products", params={"category": named}).json()
        assert [item["id"] for item in found["items"]] == ["album"]
        facets = site.get(f"{API}/facets", params={"category": named, "by": "type"})
        assert facets.json()["total"] == 1
    assert site.get(f"{API}/products", params={"category": "rock"}).status_code == 404
    assert site.get(f"{API}/facets", params={"category": "rock", "by": "type"}).status_code == 404


def test_commerce_documents_round_trip_from_get_to_post(site: TestClient, systems: assembly.Assembled) -> None:
    music = site.post(f"{API}/categories", json={"name": "Music", "slug": "music"}).json()
    site.post(f"{API}/categories", json={"name": "Jazz", "slug": "jazz", "parent": "music"})
    jazz = site.get(f"{API}/categories/jazz").json()
    assert (jazz["parent"], jazz["parent_id"], jazz["ancestors"][0]["id"]) == ("music", music["id"], music["id"])
    assert site.post(f"{API}/categories", json={**jazz, "slug": "jazz-2"}).json()["parent"] == "music"

    shown = product(category_ids=[jazz["id"]], properties=[{"n": "colour", "v": "blue"}])
    assert site.post(f"{API}/products", json=shown).status_code == 201
    given = site.get(f"{API}/products/album").json()
    again = site.post(f"{API}/products", json={**given, "id": "album-2"})
    assert again.status_code == 201, again.text
    same = site.get(f"{API}/products/album-2").json()
    assert {**same, "id": "album"} == given

    line = {"sku": "album", "price": 1_200, "qty": 1, "title": "Album"}
    placed = site.post(f"{API}/orders", json={"items": [line]}).json()
    given = site.get(f"{API}/orders/{placed['id']}").json()
    assert site.post(f"{API}/orders", json=given).json()["items"] == given["items"]


def test_nodes_comments_and_accounts_round_trip_from_get_to_post(site: TestClient) -> None:
    author = {"id": "ann", "name": "Ann"}
    new = {"slug": "a", "type": "blog-entry", "title": "A", "author": author, "detail": {"text": "x"}, "tags": ["t"]}
    made = site.post("/api/content/nodes", json={**new, "published": "2026-01-01T00:00:00Z"}).json()
    node = site.get(f"/api/content/nodes/{made['id']}").json()
    again = site.post("/api/content/nodes", json={**node, "slug": "b"})
    assert again.status_code == 201, again.text
    for name in ("type", "title", "author", "detail", "tags", "published"):
        assert again.json()[name] == node[name]

    talk = f"/api/comments/nodes/{node['id']}"
    first = site.post(talk, json={"author_id": "ann", "author_name": "Ann", "text": "One"}).json()
    reply = {"author_id": "bob", "author_name": "Bob", "text": "Two", "reply_to": first["slug"]}
    slug = site.post(talk, json=reply).json()["slug"]
    given = site.get(f"{talk}/comment", params={"slug": slug}).json()
    same = site.post(talk, json=given)
    assert same.status_code == 201, same.text
    assert [same.json()[name] for name in ("author", "text", "parent_id")] == [
        given[name] for name in ("author", "text", "parent_id")
    ]

    opened = site.post("/api/ledger/accounts", json={"currency": "EUR", "opening": 5, "name": "Till"}).json()
    account = site.get(f"/api/ledger/accounts/{opened['id']}").json()
    second = site.post("/api/ledger/accounts", json=account)
    assert second.status_code == 201, second.text
    assert (second.json()["name"], second.json()["balance"], account["balance"]) == ("Till", 0, 5)
    assert second.json()["id"] != account["id"]


def test_nodes_and_comments_round_trip_from_get_to_patch(site: TestClient) -> None:
    author = {"id": "ann", "name": "Ann"}
    new = {"slug": "a", "type": "blog-entry", "title": "A", "author": author, "detail": {"text": "x"}, "tags": ["t"]}
    made = site.post("/api/content/nodes", json={**new, "published": "2026-01-01T00:00:00Z"}).json()
    node, path = site.get(f"/api/content/nodes/{made['id']}").json(), f"/api/content/nodes/{made['id']}"
    edited = site.patch(path, json={**node, "title": "B"})
    assert (edited.status_code, edited.json()["title"], edited.json()["tags"]) == (200, "B", ["t"]), edited.text
    for name, other in (("tags", []), ("slug", "b"), ("author", {"id": "bob", "name": "Bob"}), ("published", None)):
        refused = site.patch(path, json={**edited.json(), name: other, "title": "C"})
        assert (refused.status_code, refused.json()["details"].get("field")) == (422, name)
    assert site.patch(path, json={**edited.json(), "colour": "red"}).status_code == 422
    assert site.get(path).json()["title"] == "B"

    talk = f"/api/comments/nodes/{made['id']}"
    slug = site.post(talk, json={"author_id": "ann", "author_name": "Ann", "text": "One"}).json()["slug"]
    given = site.get(f"{talk}/comment", params={"slug": slug}).json()
    changed = site.patch(f"{talk}/comment", params={"slug": slug}, json={**given, "text": "Two"})
    assert (changed.status_code, changed.json()["text"]) == (200, "Two"), changed.text
    for name, other in (("author", {"id": "bob", "name": "Bob"}), ("parent_id", "x"), ("id", "x")):
        refused = site.patch(f"{talk}/comment", params={"slug": slug}, json={**given, name: other})
        assert (refused.status_code, refused.json()["details"].get("field")) == (422, name)


def test_movements_of_an_unknown_sku_are_not_found(site: TestClient) -> None:
    assert site.post(f"{API}/products", json=product()).status_code == 201
    assert site.get(f"{API}/stock/album/movements").json() == {"items": [], "next": None}
    unknown = site.get(f"{API}/stock/nothing/movements")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown-product")


def test_a_product_may_be_sent_with_its_stored_id_field(site: TestClient) -> None:
    stored = product()
    stored["_id"] = stored.pop("id")
    assert site.post(f"{API}/products", json=stored).json()["id"] == "album"


def test_the_shape_of_a_new_product_is_documented(site: TestClient) -> None:
    document = site.get("/api/openapi.json").json()
    body = document["paths"][f"{API}/products"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    shape = document["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    assert {"id", "type", "title", "pricing", "details", "properties"} <= shape["properties"].keys()
    assert set(shape["required"]) == {"id", "type", "title", "pricing"}


@pytest.mark.parametrize("wrong", [{"id": {"$gt": ""}}, {"title": ""}, {"pricing": {}}, {"nothing": 1}, {"version": 7}])
def test_a_new_product_is_checked(site: TestClient, wrong: dict[str, Any]) -> None:
    response = site.post(f"{API}/products", json=product(**wrong))
    assert response.status_code == (201 if "version" in wrong else 422), response.text
