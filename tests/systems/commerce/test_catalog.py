"""What the catalog stores, finds, counts, imports and refuses."""

from __future__ import annotations

import gzip
import json
import random
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pymongo import MongoClient, ReadPreference
from tests.systems.commerce.conftest import Shop

from squinney.commerce import COLLECTIONS, Catalog, Categories, ProductReserved, UnknownCategory, UnknownProduct
from squinney.commerce.search import SORTS, Filters, combinations, search_for
from squinney.errors import Invalid
from squinney.mongo import schema
from squinney.mongo.queries import stages
from squinney.mongo.schema import Db, Document
from squinney.patterns import paging, transactions
from squinney.patterns.transactions import AlreadyExists, Stale

PRICING = {"list": 2_000, "retail": 1_500, "currency": "EUR"}
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


def product(sku: str, **fields: Any) -> Document:
    """A film to be going on with."""
    return {"_id": sku, "type": "Film", "title": f"Film {sku}", "pricing": PRICING, **fields}


@pytest.fixture
def catalog(shop_db: Db) -> Catalog:
    """An empty catalog."""
    return Catalog(shop_db)


def skus(page: paging.Page[Document]) -> list[str]:
    """The SKUs of a page."""
    return [found["_id"] for found in page.items]


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


BAD = [
    ("title", {"title": ""}),
    ("title", {"title": 7}),
    ("title", {"title": "x" * 1_001}),
    ("text", {"title": "a\0b"}),
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
    ("details", {"type": "Odd", "details": {"x": "y" * 200_001}}),
    ("properties", {"properties": ["x"]}),
    ("properties.Color", {"properties": {"Color": {"$gt": ""}}}),
    ("shipping.weight", {"shipping": {"weight": -1}}),
]


@pytest.mark.parametrize(("field", "change"), BAD, ids=[f"{field}-{n}" for n, (field, _) in enumerate(BAD)])
def test_a_bad_field_is_named(catalog: Catalog, shop_db: Db, field: str, change: Document) -> None:
    with pytest.raises(Invalid) as caught:
        catalog.add(product("p", **change))
    assert caught.value.details["field"].startswith(field)
    assert shop_db["products"].count_documents({}) == 0


def test_types_of_ones_own_are_checked_and_others_are_free(catalog: Catalog) -> None:
    class Lamp(BaseModel):
        watts: int

    catalog.register("Lamp", Lamp)
    assert catalog.add(product("l", type="Lamp", details={"watts": "40"}))["details"] == {"watts": 40}
    with pytest.raises(Invalid, match=r"details\.watts"):
        catalog.add(product("m", type="Lamp", details={"watts": "many"}))
    odd = catalog.add(product("o", type="Odd", details={"any": {"thing": [1, "two"]}, "genre": ["Dub"]}))
    assert catalog.get("o")["details"] == odd["details"]
    assert skus(catalog.find(genre="Dub")) == ["o"]


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


def test_many_and_with_categories(catalog: Catalog, shop_db: Db) -> None:
    categories = Categories(shop_db)
    jazz = categories.add("Jazz", parent=categories.add("Music")["slug"])
    catalog.add(product("a", category_ids=[jazz["_id"], "gone"]))
    catalog.add(product("b"))
    assert [found["_id"] for found in catalog.get_many(["b", "nothing", "a"])] == ["b", "a"]
    assert catalog.get_with_categories("a")["categories"] == [categories.get("jazz")]
    with pytest.raises(Invalid):
        catalog.get_many(["x"] * 1_001)


def test_a_subtree_gives_everything_below_in_order(catalog: Catalog, shop_db: Db) -> None:
    categories = Categories(shop_db)
    categories.add_paths([["Top", f"C{n}"] for n in range(250)] + [["Other"]])
    ids = [found["_id"] for found in shop_db["categories"].find({"name": {"$ne": "Other"}})]
    chance = random.Random(1)
    titles = {}
    for number in range(60):
        titles[f"p{number}"] = title = f"Title {chance.randrange(20):02}"
        catalog.add(product(f"p{number}", title=title, category_ids=chance.sample(ids, 2)))
    catalog.add(product("elsewhere", category_ids=[categories.get("other")["_id"]]))
    found: list[str] = []
    cursor = None
    while True:
        page = catalog.subtree("top", cursor=cursor, limit=7)
        found += skus(page)
        if (cursor := page.next) is None:
            break
    assert found == sorted(titles, key=lambda sku: (titles[sku].lower(), sku))
    with pytest.raises(UnknownCategory):
        catalog.subtree("nowhere")


# ---- find ----


@pytest.fixture(scope="module")
def full(client: MongoClient[Document]) -> Iterator[Catalog]:
    """A catalog of three thousand products of every kind, shared by the tests that only read."""
    db = client[f"test_catalog_{secrets.token_hex(8)}"]
    schema.apply(db, [*transactions.COLLECTIONS, *COLLECTIONS])
    chance = random.Random(11)
    start = datetime(1960, 1, 1, tzinfo=UTC)

    def line(number: int) -> str:
        listed = chance.randrange(500, 3_000)
        details: Document = {"genre": chance.sample(["Jazz", "Rock", "Pop", "Folk", "Soul"], 2)}
        kind = chance.choice(["Film", "Audio Album"])
        if kind == "Film":
            details["actor"] = [f"Actor {n}" for n in chance.sample(range(25), 3)]
        if number % 10:
            details["issue_date"] = (start + timedelta(days=chance.randrange(8_000))).isoformat()
        pricing = {"list": listed, "retail": chance.randrange(250, listed), "currency": "EUR"}
        fields = {
            "type": kind,
            "title": f"{chance.choice(['The', 'the', 'A', 'Élan'])} {chance.choice(['Tree', 'River'])} {number}",
            "category_ids": [f"c{n}" for n in chance.sample(range(8), 2)],
            "pricing": pricing,
            "details": details,
            "properties": {"Color": chance.choice(["red", "blue"]), "Size": chance.randrange(5)},
        }
        return json.dumps({"_id": f"p{number:05}", **fields})

    report = Catalog(db).import_products(line(number) for number in range(3_000))
    assert (report.imported, report.refused) == (3_000, 0)
    yield Catalog(db)
    client.drop_database(db.name)


COMBINATIONS = list(combinations())


def name_of(combination: tuple[Filters, str]) -> str:
    """What a combination filters and sorts by."""
    filters, sort = combination
    return "+".join(sorted(filters.given())) + f" by {sort}"


def explained(db: Db, where: Document, sort: list[tuple[str, int]]) -> Document:
    """The server's plan for a page."""
    command = {"find": "products", "filter": where, "sort": dict(sort), "limit": 51}
    return db.command({"explain": command, "verbosity": "executionStats"})


@pytest.mark.parametrize("combination", COMBINATIONS, ids=name_of)
def test_each_combination_is_served_in_order_by_an_index(full: Catalog, combination: tuple[Filters, str]) -> None:
    filters, sort = combination
    db = full._db
    given = {name: getattr(filters, name) for name in filters.given()}
    search = search_for(filters, sort)
    first = full.find(**given, sort=sort, limit=50)
    everything = list(db["products"].find(search.where).sort(search.sort))
    assert first.items == everything[:50]
    assert len(everything) > 60, "the example must have a second page"
    deep = paging.cursor_after(search.sort, everything[len(everything) * 3 // 4])
    for page_of in (search, search.behind(deep)):
        plan = explained(db, page_of.where, search.sort)
        assert stages(plan["queryPlanner"]["winningPlan"]).isdisjoint({"SORT", "COLLSCAN"})
        examined = plan["executionStats"]["totalDocsExamined"]
        assert examined <= 10 * max(plan["executionStats"]["nReturned"], 1), examined
    pages, cursor = [], None
    while True:
        page = full.find(**given, sort=sort, limit=200, cursor=cursor)
        pages += page.items
        if (cursor := page.next) is None:
            break
    assert [found["_id"] for found in pages] == [found["_id"] for found in everything]


def test_enough_combinations_are_served() -> None:
    assert len(COMBINATIONS) > 60
    assert {sort for _, sort in COMBINATIONS} == set(SORTS)


REFUSED: list[tuple[str, Document]] = [
    ("genre", {"actor": "x", "genre": "y"}),
    ("genre", {"category": "x", "genre": "y"}),
    ("title_prefix", {"price_between": (1, 2), "title_prefix": "x"}),
    ("sort", {"price_between": (1, 2), "sort": "title"}),
    ("sort", {"actor": "x", "sort": "price"}),
    ("sort", {"properties": {"a": 1}, "sort": "newest"}),
    ("sort", {"sort": "relevance"}),
    ("sort", {"sort": "$natural"}),
    ("sort", {"words": "x", "sort": "price"}),
    ("price_between", {"words": "x", "price_between": (1, 2)}),
    ("discount_over", {"actor": "x", "discount_over": 5}),
    ("discount_over", {"discount_over": 101}),
    ("price_between", {"price_between": (1,)}),
    ("price_between", {"price_between": ("1", "2")}),
    ("genre", {"genre": {"$gt": ""}}),
    ("genre", {"genre": ""}),
    ("title_prefix", {"title_prefix": {"$regex": "x"}}),
    ("words", {"words": ["x"]}),
    ("words", {"words": "x" * 201}),
    ("properties.Color", {"properties": {"Color": {"$ne": 1}}}),
    ("flavour", {"flavour": "x"}),
    ("limit", {"limit": 0}),
    ("limit", {"words": "x", "limit": 1_000}),
    ("cursor", {"cursor": "x"}),
    ("cursor", {"words": "x", "cursor": "x"}),
]


@pytest.mark.parametrize(("field", "given"), REFUSED, ids=[f"{field}-{n}" for n, (field, _) in enumerate(REFUSED)])
def test_what_no_index_serves_is_refused_and_named(full: Catalog, field: str, given: Document) -> None:
    with pytest.raises(Invalid) as caught:
        full.find(**given)
    assert caught.value.details["field"] == field
    if field == "sort":
        assert caught.value.details["choices"]


def test_titles_are_found_by_prefix_in_any_case_and_script(catalog: Catalog) -> None:
    for number, title in enumerate(["Straße", "STRASSE 2", "Élan", "e\u0301lan vital", "élancer", "Ёлка", "élite"]):
        catalog.add(product(f"p{number}", title=title))
    assert skus(catalog.find(title_prefix="strass")) == ["p0", "p1"]
    assert sorted(skus(catalog.find(title_prefix="ÉLAN"))) == ["p2", "p3", "p4"]
    assert skus(catalog.find(title_prefix="ё")) == ["p5"]
    assert skus(catalog.find(title_prefix=".*")) == []


def test_words_come_by_relevance_and_page_by_page(full: Catalog) -> None:
    assert {found["title"].split()[1] for found in full.find(words="river").items} == {"River"}
    found: list[str] = []
    cursor = None
    while True:
        page = full.find(words="river", type="Film", genre="Jazz", cursor=cursor, limit=150)
        found += skus(page)
        scores = [item["score"] for item in page.items]
        assert scores == sorted(scores, reverse=True)
        if (cursor := page.next) is None:
            break
    expected = full._db["products"].count_documents(
        {"title": {"$regex": "River"}, "type": "Film", "details.genre": "Jazz"}
    )
    assert len(found) == len(set(found)) == expected > 150


def test_words_prefer_titles(catalog: Catalog) -> None:
    catalog.add(product("d", title="Other", description="about coltrane"))
    catalog.add(product("t", title="Coltrane"))
    assert skus(catalog.find(words="coltrane")) == ["t", "d"]
    assert skus(catalog.find(words='"$where" -coltrane')) == []


def test_facets_count_what_find_finds(full: Catalog) -> None:
    counted = full.facets(by=["type", "genre", "actor", "category", "properties", "price"], type="Film", genre="Jazz")
    matching = list(full._db["products"].find({"type": "Film", "details.genre": "Jazz"}))
    assert counted["total"] == len(matching)
    assert counted["type"] == [{"value": "Film", "count": len(matching)}]
    genres = {row["value"]: row["count"] for row in counted["genre"]}
    assert genres["Rock"] == sum("Rock" in found["details"]["genre"] for found in matching)
    assert sum(row["count"] for row in counted["price"]) == len(matching)
    reds = next(row["count"] for row in counted["properties"] if row["value"] == {"n": "Color", "v": "red"})
    assert reds == sum({"n": "Color", "v": "red"} in found["properties"] for found in matching)
    assert full.facets(by=["type"])["total"] == 3_000
    assert full.facets(by=["genre"], words="river")["total"] > 0
    assert full.facets(by=["genre"], genre="Polka") == {"total": 0, "genre": []}
    with pytest.raises(Invalid, match=r"^by must"):
        full.facets(by=["$where"])


def test_several_properties_must_all_hold(full: Catalog) -> None:
    found = full.find(properties={"Color": "red", "Size": 3}, limit=200).items
    assert found
    for item in found:
        assert {"n": "Color", "v": "red"} in item["properties"]
        assert {"n": "Size", "v": 3} in item["properties"]


def test_browsing_may_read_elsewhere(shop_db: Db) -> None:
    catalog = Catalog(shop_db, read_preference=ReadPreference.SECONDARY_PREFERRED)
    catalog.add(product("p"))
    assert skus(catalog.find(type="Film")) == ["p"]


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


@pytest.mark.timeout(600)
def test_a_hundred_thousand_real_films_are_imported(catalog: Catalog, real_data: Callable[[str], Path]) -> None:
    with gzip.open(real_data("films.jsonl.gz"), "rt", encoding="utf-8") as lines:
        films = [json.loads(line) for line in lines]

    def as_line(number: int) -> str:
        if number % 10_000 == 9_999:
            return '{"_id": "broken"'
        film = films[number % len(films)]
        details = {"genre": film["genres"], "actor": film["cast"][:2], "issue_date": f"{film['year']}-01-01"}
        return json.dumps(product(f"f{number:06}", title=film["title"] or "Untitled", details=details))

    report = catalog.import_products(as_line(number) for number in range(100_000))
    assert (report.imported, report.refused) == (99_990, 10)
    assert [number for number, _ in report.bad] == list(range(10_000, 100_001, 10_000))
    newest = catalog.find(genre="Drama", sort="newest").items
    dates = [found["details"]["issue_date"] for found in newest]
    assert dates == sorted(dates, reverse=True)
    assert catalog.facets(by=["genre"], type="Film")["total"] == 99_990
