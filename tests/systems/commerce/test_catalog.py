"""Tests of storing and importing products."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pymongo import ReadPreference
from tests.patterns.interrupt import meanwhile
from tests.racing import at_once
from tests.sizes import a_tenth_of, heavy
from tests.systems.commerce.conftest import PRICING, Shop, product, skus

from squinney.commerce import Catalog, Categories, Orders, ProductReserved, UnknownProduct
from squinney.commerce.catalog.search import PRODUCTS
from squinney.errors import Invalid, Unavailable
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db, Document, apply
from squinney.patterns import attributes
from squinney.transactions import AlreadyExists, KeyReused, Stale

ALBUM = {
    "_id": "00e8da9b",
    "type": "Audio Album",
    "title": "A Love Supreme",
    "description": "by John Coltrane",
    "asin": "B0000A118M",
    "shipping": {"weight": 6, "dimensions": {"width": 10, "height": 10, "depth": 1}},
    "pricing": PRICING,
    "details": {
        "genre": ["Jazz", "General"],
        "artist": "John Coltrane",
        "tracks": ["Acknowledgement", {"title": "Resolution", "duration_seconds": 440}],
        "issue_date": "1965-01-01",
    },
    "properties": {"Label": "Impulse", "Discs": 1},
}


def test_a_product_comes_back_checked_and_completed(catalog: Catalog) -> None:
    added = catalog.add({**ALBUM, "pricing": {**PRICING, "savings": 999_999, "pct_savings": 99}})
    assert added["pricing"] == {**PRICING, "savings": 500, "pct_savings": 25}
    assert added["title_lower"] == "a love supreme"
    assert added["details"]["issue_date"] == datetime(1965, 1, 1, tzinfo=UTC)
    assert added["properties"] == [{"n": "Discs", "v": 1}, {"n": "Label", "v": "Impulse"}]
    assert catalog.get("00e8da9b") == added
    with pytest.raises(AlreadyExists):
        catalog.add(ALBUM)


def test_a_document_can_be_put_back_as_it_was_read(catalog: Catalog) -> None:
    first = catalog.add(ALBUM)
    second = catalog.replace("00e8da9b", catalog.get("00e8da9b"), expected_version=1)
    assert second == {**first, "version": 2}


def test_a_product_is_added_once_per_key(catalog: Catalog) -> None:
    added = catalog.add(product("f"), key="k")
    catalog.patch("f", {"title": "later"})
    assert catalog.add(product("f"), key="k") == added
    assert catalog.get("f")["title"] == "later"
    with pytest.raises(AlreadyExists):
        catalog.add(product("f"), key="k2")
    with pytest.raises(KeyReused):
        catalog.add(product("g"), key="k")


def test_versions_keep_editors_apart(catalog: Catalog) -> None:
    catalog.add(ALBUM)
    patched = catalog.patch("00e8da9b", {"pricing": {"retail": 1_000}, "asin": None}, expected_version=1)
    assert (patched["pricing"]["pct_savings"], patched["version"], "asin" in patched) == (50, 2, False)
    for attempt in (
        lambda: catalog.patch("00e8da9b", {"title": "x"}, expected_version=1),
        lambda: catalog.replace("00e8da9b", ALBUM, expected_version=1),
    ):
        with pytest.raises(Stale):
            attempt()
    assert catalog.patch("00e8da9b", {"title": "Ballads"})["title_lower"] == "ballads"
    for attempt in (
        lambda: catalog.patch("nothing", {"title": "x"}),
        lambda: catalog.replace("nothing", ALBUM, expected_version=1),
        lambda: catalog.get("nothing"),
        lambda: catalog.remove("nothing"),
    ):
        with pytest.raises(UnknownProduct):
            attempt()


def test_no_product_has_the_last_of_all_versions(catalog: Catalog) -> None:
    catalog.add(product("f"))
    with pytest.raises(Invalid, match="expected_version"):
        catalog.replace("f", product("f"), expected_version=2**63 - 1)


def test_changes_ask_the_primary_why_they_failed(shop_db: Db) -> None:
    """Even with the read preference `secondary`, which no member satisfies here."""
    catalog = Catalog(shop_db, read_preference=ReadPreference.SECONDARY)
    catalog.add(ALBUM)
    with pytest.raises(Stale):
        catalog.replace("00e8da9b", ALBUM, expected_version=2)
    with pytest.raises(UnknownProduct):
        catalog.replace("nothing", ALBUM, expected_version=1)


def test_a_product_added_again_meanwhile_is_not_replaced(catalog: Catalog, shop_db: Db, mongod: Embedded) -> None:
    """Both products have version 1, but the caller knows only the removed one."""
    catalog.add(ALBUM)

    def add_again() -> None:
        catalog.remove(ALBUM["_id"])
        catalog.add({**ALBUM, "title": "Another"})

    with meanwhile(mongod, shop_db, add_again, "update", "commerce.products") as db, pytest.raises(Stale):
        Catalog(db).replace(ALBUM["_id"], ALBUM, expected_version=1)
    assert catalog.get(ALBUM["_id"])["title"] == "Another"


def test_many_patches_at_once_all_happen(catalog: Catalog) -> None:
    catalog.add(product("p", type="Odd"))
    at_once(32, lambda number: catalog.patch("p", {"details": {f"n{number}": number}}))
    assert catalog.get("p")["details"] == {f"n{number}": number for number in range(32)}


def test_properties_are_patched_by_name(catalog: Catalog) -> None:
    catalog.add(product("p", properties={"Color": "red", "Size": ["M", "L"]}))
    patched = catalog.patch("p", {"properties": {"Color": "blue"}})
    assert attributes.mapping(patched["properties"]) == {"Color": "blue", "Size": ["M", "L"]}
    assert catalog.patch("p", {"properties": {"Size": None}})["properties"] == [{"n": "Color", "v": "blue"}]
    assert catalog.patch("p", {"properties": [{"n": "Weight", "v": 3}]})["properties"] == [{"n": "Weight", "v": 3}]
    assert catalog.patch("p", {"properties": None})["properties"] == []


BAD = [
    ("title", {"title": ""}),
    ("title", {"title": 7}),
    ("title", {"title": "x" * 1_001}),
    ("title", {"title": "a\0b"}),
    ("details.director.0", {"details": {"director": ["a\0b"]}}),
    ("pricing.retail", {"pricing": {**PRICING, "retail": -1}}),
    ("pricing.retail", {"pricing": {**PRICING, "retail": 1.5}}),
    ("pricing.currency", {"pricing": {**PRICING, "currency": "euro"}}),
    ("pricing", {"pricing": None}),
    ("extra", {"extra": 1}),
    ("$where", {"$where": "1"}),
    ("details.nonsense", {"details": {"nonsense": 1}}),
    ("details.genre", {"details": {"genre": "Jazz"}}),
    ("details.issue_date", {"details": {"issue_date": "soon"}}),
    ("details name", {"type": "Odd", "details": {"a.b": 1}}),
    ("details.x name", {"type": "Odd", "details": {"x": {"$gt": 1}}}),
    ("details.genre", {"type": "Odd", "details": {"genre": [1]}}),
    ("details.issue_date", {"type": "Odd", "details": {"issue_date": 5}}),
    ("details.issue_date", {"details": {"issue_date": "0001-01-01T00:00:00+05:00"}}),
    ("details.issue_date", {"type": "Odd", "details": {"issue_date": "9999-12-31T23:00:00-05:00"}}),
    ("details.x", {"type": "Odd", "details": {"x": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))}}),
    ("details.x", {"type": "Odd", "details": {"x": float("nan")}}),
    ("details.x", {"type": "Odd", "details": {"x": [float("inf")]}}),
    ("details", {"type": "Odd", "details": {"x": "y" * 200_001}}),
    ("details.text_language", {"type": "Odd", "details": {"text_language": "klingon"}}),
    ("properties", {"properties": ["x"]}),
    ("properties", {"properties": [{"n": {}, "v": 1}]}),
    ("properties.Color", {"properties": {"Color": {"$gt": ""}}}),
    ("shipping.weight", {"shipping": {"weight": -1}}),
]


@pytest.mark.parametrize(("field", "change"), BAD, ids=[f"{field}-{n}" for n, (field, _) in enumerate(BAD)])
def test_a_bad_field_is_named(catalog: Catalog, shop_db: Db, field: str, change: Document) -> None:
    with pytest.raises(Invalid) as caught:
        catalog.add(product("p", **change))
    assert caught.value.details["field"].startswith(field)
    assert shop_db["commerce.products"].count_documents({}) == 0


def test_repeated_values_are_stored_once(catalog: Catalog, shop_db: Db) -> None:
    jazz = Categories(shop_db).add("Jazz")["_id"]
    details = {"genre": ["Jazz", "Bop", "Jazz"], "actor": ["Ida", "Ida"]}
    catalog.add(product("f", category_ids=[jazz, jazz], details=details, properties={"Color": ["red", "red", "blue"]}))
    counted = catalog.facets(by=["category", "genre", "actor", "properties"])
    assert {row["count"] for name, rows in counted.items() if name != "total" for row in rows} == {1}
    assert catalog.get("f")["details"]["genre"] == ["Jazz", "Bop"], "in the order given"


def test_registered_types_are_validated_and_other_types_are_free(catalog: Catalog) -> None:
    class Lamp(BaseModel):
        watts: int

    catalog.register("Lamp", Lamp)
    assert catalog.add(product("l", type="Lamp", details={"watts": "40"}))["details"] == {"watts": 40}
    with pytest.raises(Invalid, match=r"details\.watts"):
        catalog.add(product("m", type="Lamp", details={"watts": "many"}))
    odd = catalog.add(product("o", type="Odd", details={"any": {"thing": [1, "two"]}, "genre": ["Dub"]}))
    assert catalog.get("o")["details"] == odd["details"]
    assert skus(catalog.find(genre="Dub")) == ["o"]


@pytest.mark.parametrize("language", ["Japanese", "english", 5, ["de", "fr"]])
def test_details_may_have_a_language(catalog: Catalog, language: object) -> None:
    """By default, the server's text index reads a document's language from this field."""
    book = catalog.add(product("b", type="Book", title="Snow Country", details={"language": language}))
    assert (catalog.get("b"), skus(catalog.find(words="snow"))) == (book, ["b"])


def test_a_reserved_product_stays(shop: Shop) -> None:
    catalog = Catalog(shop.db, transactions=shop.transactions)
    catalog.add(product("p"))
    shop.inventory.receive("p", 5)
    cart_id = shop.cart(p=1)
    with pytest.raises(ProductReserved):
        catalog.remove("p")
    shop.carts.remove_item(cart_id, "p")
    catalog.remove("p")
    with pytest.raises(UnknownProduct):
        shop.carts.add_item(cart_id, "p")
    assert shop.level("p") == (5, 0, 0)
    catalog.add(product("p"))
    shop.carts.add_item(cart_id, "p")
    catalog.add(product("unstocked"))
    catalog.remove("unstocked")


def test_an_import_does_not_count_products_that_no_majority_has(own_db: Db, failing: Callable[..., Any]) -> None:
    apply(own_db, [PRODUCTS])
    unconfirmed = {"code": 64, "errmsg": "waiting for replication timed out"}
    with failing(["insert"], writeConcernError=unconfirmed), pytest.raises(Unavailable) as caught:
        Catalog(own_db).import_products([json.dumps(product("p"))])
    assert caught.value.outcome_unknown


@pytest.mark.parametrize("sku", [".", "..", "a/../b", "./a", "a/."])
def test_a_sku_that_no_address_can_name_is_refused(catalog: Catalog, shop_db: Db, sku: str) -> None:
    """Browsers and proxies resolve the dots in a URL before they send it."""
    with pytest.raises(Invalid, match=r"^sku must not be"):
        catalog.add(product(sku))
    with pytest.raises(Invalid, match=r"^sku must not be"):
        Orders(shop_db).place([{"sku": sku, "price": 1, "qty": 1}])
    assert catalog.import_products([json.dumps(product(sku))]).bad[0][1].startswith("sku must not be")


@pytest.mark.parametrize("sku", ["...", "a.b", ".a", "a/..b", "a%2Fmovements"])
def test_a_sku_may_have_dots(catalog: Catalog, sku: str) -> None:
    assert catalog.get(catalog.add(product(sku))["_id"])["_id"] == sku


def test_a_category_that_does_not_exist_is_refused(catalog: Catalog, shop_db: Db) -> None:
    jazz = Categories(shop_db).add("Jazz")["_id"]
    message = "category_ids: there is no category nowhere"
    for key in (None, "k"):
        with pytest.raises(Invalid, match=message):
            catalog.add(product("p", category_ids=[jazz, "nowhere"]), key=key)
    catalog.add(product("p", category_ids=[jazz]))
    with pytest.raises(Invalid, match=message):
        catalog.replace("p", product("p", category_ids=["nowhere"]), expected_version=1)
    with pytest.raises(Invalid, match=message):
        catalog.patch("p", {"category_ids": ["nowhere"]})
    lines = [json.dumps(product("q", category_ids=[jazz])), json.dumps(product("r", category_ids=["nowhere"]))]
    report = catalog.import_products(lines)
    assert (report.imported, report.bad) == (1, [(2, message)])
    assert (catalog.get("p")["category_ids"], catalog.get("p")["version"]) == ([jazz], 1)


def test_a_product_whose_category_is_gone_can_still_be_changed(catalog: Catalog, shop_db: Db) -> None:
    """A process that dies while it removes a category leaves such references; `repair` removes them."""
    catalog.add(product("p"))
    shop_db["commerce.products"].update_one({"_id": "p"}, {"$set": {"category_ids": ["gone"]}})
    assert catalog.patch("p", {"title": "New"})["title"] == "New"


def test_many_and_with_categories(catalog: Catalog, shop_db: Db) -> None:
    categories = Categories(shop_db)
    jazz = categories.add("Jazz", parent=categories.add("Music")["slug"])
    catalog.add(product("a", category_ids=[jazz["_id"]]))
    shop_db["commerce.products"].update_one({"_id": "a"}, {"$push": {"category_ids": "gone"}})
    catalog.add(product("b"))
    assert [found["_id"] for found in catalog.get_many(["b", "nothing", "a"])] == ["b", "a"]
    assert catalog.get_with_categories("a")["categories"] == [categories.get("jazz")]
    with pytest.raises(Invalid):
        catalog.get_many(["x"] * 1_001)


# ---- import ----


def test_bad_lines_are_reported_by_number(catalog: Catalog) -> None:
    lines = [
        json.dumps(product("a")),
        "not json",
        "",
        json.dumps(product("b", title="")),
        json.dumps(product("a")),
        "[1]",
        "[" * 100_000,
        json.dumps(product("c")).encode(),
        b"\xff\xfe",
    ]
    read: list[int] = []
    report = catalog.import_products(lines, progress=read.append)
    assert (report.imported, report.refused, read[-1]) == (2, 6, 9)
    assert [number for number, _ in report.bad] == [2, 4, 5, 6, 7, 9]
    assert catalog.import_products([json.dumps(product("a"))], existing="skip").skipped == 1
    again = catalog.import_products([json.dumps(product("a", title="New"))], existing="replace")
    assert (again.replaced, catalog.get("a")["title"]) == (1, "New")
    with pytest.raises(Invalid):
        catalog.import_products([], existing="perhaps")  # type: ignore[arg-type]


def test_an_editor_gets_a_conflict_after_an_import_replaced_the_product(catalog: Catalog) -> None:
    first = catalog.add(product("a"))
    catalog.import_products([json.dumps(product("a", title="Imported"))], existing="replace")
    with pytest.raises(Stale):
        catalog.replace("a", first, expected_version=1)
    assert (catalog.get("a")["title"], catalog.get("a")["version"]) == ("Imported", 2)
    assert catalog.patch("a", {"title": "Edited"}, expected_version=2)["version"] == 3


def test_concurrent_imports_replace_products(catalog: Catalog) -> None:
    lines = [json.dumps(product(f"p{number}")) for number in range(50)]
    reports = at_once(4, lambda _: catalog.import_products(lines, existing="replace"))
    assert [report.bad for report in reports] == [[]] * 4
    assert sum(report.imported for report in reports) == 50
    assert catalog.get("p0")["version"] == 4


@heavy
@pytest.mark.timeout(600)
def test_real_films_are_imported(catalog: Catalog, real_data: Callable[[str], Path]) -> None:
    count = a_tenth_of(100_000)
    with gzip.open(real_data("films.jsonl.gz"), "rt", encoding="utf-8") as lines:
        films = [json.loads(line) for line in lines]
    every = count // 10

    def as_line(number: int) -> str:
        if number % every == every - 1:
            return '{"_id": "broken"'
        film = films[number % len(films)]
        details = {"genre": film["genres"], "actor": film["cast"][:2], "issue_date": f"{film['year']}-01-01"}
        return json.dumps(product(f"f{number:06}", title=film["title"] or "Untitled", details=details))

    report = catalog.import_products(as_line(number) for number in range(count))
    assert (report.imported, report.refused) == (count - 10, 10)
    assert [number for number, _ in report.bad] == list(range(every, count + 1, every))
    newest = catalog.find(genre="Drama", sort="newest").items
    dates = [found["details"]["issue_date"] for found in newest]
    assert dates == sorted(dates, reverse=True)
    assert catalog.facets(by=["genre"], type="Film")["total"] == count - 10
