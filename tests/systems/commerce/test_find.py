"""Tests of product search: every combination of filters, words, prefixes, facets and subtrees."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pymongo import MongoClient, ReadPreference
from tests.systems.commerce.conftest import product, skus

from squinney import transactions
from squinney.commerce import COLLECTIONS, Catalog, Categories, UnknownCategory
from squinney.commerce.catalog import subtree
from squinney.commerce.catalog.search import SORTS, Filters, after_cursor, combinations, in_categories, query_for
from squinney.errors import Invalid
from squinney.mongo import schema
from squinney.mongo.queries import Query, stages
from squinney.mongo.schema import Db, Document
from squinney.patterns import paging
from squinney.testing.server_commands import Commands


@pytest.fixture(scope="module")
def full(client: MongoClient[Document]) -> Iterator[Catalog]:
    """A catalog of 3,000 products of all types, shared by tests that only read."""
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

    db["commerce.categories"].insert_many({"_id": f"c{n}", "slug": f"c{n}"} for n in range(8))
    report = Catalog(db).import_products(line(number) for number in range(3_000))
    assert (report.imported, report.refused) == (3_000, 0)
    yield Catalog(db)
    client.drop_database(db.name)


COMBINATIONS = list(combinations())


def name_of(combination: tuple[Filters, str]) -> str:
    """Return a test id: the filters and the sort order."""
    filters, sort = combination
    return "+".join(sorted(filters.given())) + f" by {sort}"


def explained(db: Db, query: Query) -> Document:
    """Return the server's plan for a page."""
    command = {"find": "commerce.products", "filter": query(), "sort": dict(query.sort), "limit": 51}
    return db.command({"explain": command, "verbosity": "executionStats"})


@pytest.mark.parametrize("combination", COMBINATIONS, ids=name_of)
def test_each_combination_is_served_in_order_by_an_index(full: Catalog, combination: tuple[Filters, str]) -> None:
    filters, sort = combination
    db = full._db
    given = {name: getattr(filters, name) for name in filters.given()}
    query = query_for(filters, sort)
    first = full.find(**given, sort=sort, limit=50)
    everything = list(query.find(db))
    assert first.items == everything[:50]
    assert len(everything) > 60, "the example must have a second page"
    deep = paging.cursor_after(query.sort, everything[len(everything) * 3 // 4])
    for page_query in (query, after_cursor(query, deep)):
        plan = explained(db, page_query)
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
    ("properties", {"properties": ["Color"]}),
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


def test_titles_that_grow_when_folded_are_paged(catalog: Catalog) -> None:
    """One letter may become eighteen, which once made cursors too long."""
    for number in range(3):
        catalog.add(product(f"p{number}", title="\ufdfa" * 1_000))
    first = catalog.find(sort="title", limit=1)
    assert skus(catalog.find(sort="title", cursor=first.next)) == ["p1", "p2"]
    assert len(catalog.find(title_prefix="\ufdfa" * 200).items) == 3


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
    expected = full._db["commerce.products"].count_documents(
        {"title": {"$regex": "River"}, "type": "Film", "details.genre": "Jazz"}
    )
    assert len(found) == len(set(found)) == expected > 150


def test_no_more_products_are_counted_than_asked_for(full: Catalog) -> None:
    few = full.facets(by=["type"], up_to=100)
    assert (few["total"], few["complete"], sum(row["count"] for row in few["type"])) == (100, False, 100)
    assert full.facets(by=["type"], up_to=100, title_prefix="a tree 11", type="Film")["complete"]
    with pytest.raises(Invalid, match="up_to"):
        full.facets(by=["type"], up_to=0)


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("Up", "up"),
        ("Her", "HER"),
        ("It", "it"),
        ("Once", "once"),
        ("The Who", "the who"),
        ("東京物語", "東京"),
        ("東京物語", "物語"),
        ("東京物語", "東"),
        ("東京物語", "東京物語"),
        ("東京物語", '"東京"'),
        ("となりのトトロ", "トトロ"),
        ("となりのトトロ", "ﾄﾄﾛ"),
        ("기생충", "기생"),
        ("ลุงบุญมีระลึกชาติ", "บุญมี"),
        ("Amélie", "amelie"),
    ],
)
def test_a_title_is_found_by_its_own_words(catalog: Catalog, title: str, words: str) -> None:
    catalog.add(product("p", title=title))
    catalog.add(product("other", title="Quite Another Thing", description="北国"))
    assert skus(catalog.find(words=words)) == ["p"]


def test_people_are_found_in_any_script_and_exclusions_hold(catalog: Catalog) -> None:
    catalog.add(product("p", title="Late Spring", details={"actor": ["原節子"]}))
    assert skus(catalog.find(words="節子")) == ["p"]
    assert skus(catalog.find(words="spring -原節子")) == []


def test_titles_are_sorted_as_people_look_for_them(catalog: Catalog) -> None:
    titles = ["Zebra", "Émile", "Æon", "eagle", "Ödipus", "Łódź", "Emma", "Orange"]
    for number, title in enumerate(titles):
        catalog.add(product(f"p{number}", title=title))
    found = [item["title"] for item in catalog.find(sort="title").items]
    assert found == ["Æon", "eagle", "Émile", "Emma", "Łódź", "Ödipus", "Orange", "Zebra"]
    assert [item["title"] for item in catalog.find(title_prefix="EMI").items] == ["Émile"]
    assert [item["title"] for item in catalog.find(title_prefix="émi").items] == ["Émile"]


def test_words_prefer_titles(catalog: Catalog) -> None:
    catalog.add(product("d", title="Other", description="about coltrane"))
    catalog.add(product("t", title="Coltrane"))
    assert skus(catalog.find(words="coltrane")) == ["t", "d"]
    assert skus(catalog.find(words='"$where" -coltrane')) == []


def test_facets_count_what_find_finds(full: Catalog) -> None:
    counted = full.facets(by=["type", "genre", "actor", "category", "properties", "price"], type="Film", genre="Jazz")
    matching = list(full._db["commerce.products"].find({"type": "Film", "details.genre": "Jazz"}))
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


def test_a_page_and_its_facets_take_one_round_trip_each(counted: tuple[Db, Commands]) -> None:
    catalog, commands = Catalog(counted[0]), counted[1]
    catalog.add(product("p", details={"genre": ["Jazz"]}))
    commands.sent.clear()
    assert catalog.facets(by=["type", "genre", "price"], genre="Jazz")["total"] == 1
    assert commands.names == ["aggregate"]
    commands.sent.clear()
    assert skus(catalog.find(genre="Jazz", sort="newest")) == ["p"]
    assert commands.names == ["find"]


def test_several_properties_must_all_hold(full: Catalog) -> None:
    found = full.find(properties={"Color": "red", "Size": 3}, limit=200).items
    assert found
    for item in found:
        assert {"n": "Color", "v": "red"} in item["properties"]
        assert {"n": "Size", "v": 3} in item["properties"]


def test_browsing_uses_the_read_preference(shop_db: Db) -> None:
    catalog = Catalog(shop_db, read_preference=ReadPreference.SECONDARY_PREFERRED)
    catalog.add(product("p"))
    assert skus(catalog.find(type="Film")) == ["p"]


# ---- below a category ----


@pytest.fixture(scope="module")
def shelves(client: MongoClient[Document]) -> Iterator[Catalog]:
    """60 products, each in two categories of a tree of 250, some without a date; and one product in another tree."""
    db = client[f"test_shelves_{secrets.token_hex(8)}"]
    schema.apply(db, [*transactions.COLLECTIONS, *COLLECTIONS])
    Categories(db).add_paths([["Top", f"C{n}"] for n in range(250)] + [["Other"]])
    ids = [found["_id"] for found in db["commerce.categories"].find({"name": {"$ne": "Other"}})]
    chance = random.Random(1)
    catalog = Catalog(db)
    for number in range(60):
        details = {"issue_date": f"19{chance.randrange(60, 70)}-01-01"} if number % 4 else {}
        pricing = {"list": 900, "retail": chance.choice([300, 600, 900]), "currency": "EUR"}
        catalog.add(
            {
                "_id": f"p{number}",
                "type": chance.choice(["Film", "Audio Album"]),
                "title": f"Title {chance.randrange(20):02}",
                "category_ids": chance.sample(ids, 2),
                "pricing": pricing,
                "details": details,
            }
        )
    catalog.add(product("elsewhere", category_ids=[Categories(db).get("other")["_id"]]))
    yield catalog
    client.drop_database(db.name)


@pytest.mark.parametrize("kind", [None, "Film"])
@pytest.mark.parametrize("sort", SORTS)
def test_a_subtree_gives_everything_below_in_order(shelves: Catalog, sort: str, kind: str | None) -> None:
    where = {"_id": {"$ne": "elsewhere"}, **({"type": kind} if kind else {})}
    field, direction = SORTS[sort]
    expected = list(shelves._db["commerce.products"].find(where).sort([(field, direction), ("_id", direction)]))
    found: list[str] = []
    cursor = None
    while True:
        page = shelves.subtree("top", type=kind, sort=sort, cursor=cursor, limit=7)
        found += skus(page)
        if (cursor := page.next) is None:
            break
    assert found == [one["_id"] for one in expected]
    counted = shelves.subtree_facets("top", by=["type"], type=kind)
    assert counted["total"] == len(expected)
    films = sum(one["type"] == "Film" for one in expected)
    assert {"value": "Film", "count": films} in counted["type"]


@pytest.mark.parametrize("sort", ["price", "-price", "newest", "oldest"])
def test_a_page_of_a_subtree_reads_no_more_than_it_gives(counted: tuple[Db, Commands], sort: str) -> None:
    """Even if many products before the page have the same price, or no date."""
    db, commands = counted
    category = Categories(db).add("Top")
    products = [product(f"p{number:03}", category_ids=[category["_id"]]) for number in range(200)]
    Catalog(db).import_products(json.dumps(one) for one in products)
    page = Catalog(db).subtree("top", sort=sort, limit=190)
    commands.sent.clear()
    rest = Catalog(db).subtree("top", sort=sort, limit=5, cursor=page.next)
    assert len(rest.items) == 5
    assert commands.names == ["find"] * 3


def test_every_query_below_a_category_is_served_in_order(shelves: Catalog) -> None:
    ids = subtree.ids_below(shelves._db, "top")[: subtree.CATEGORIES_AT_ONCE]
    for sort, (field, _) in SORTS.items():
        for value in (None, "x", 5, datetime(1960, 1, 1, tzinfo=UTC)):
            for query in subtree.queries_after(in_categories(ids, sort), {field: value, "_id": "p5"}):
                assert "SORT" not in stages(query.explain(shelves._db)), (sort, value, query)


def test_a_damaged_product_does_not_hide_the_subtree(catalog: Catalog, shop_db: Db) -> None:
    """The products of many categories are merged here, and a text cannot be compared with a number."""
    Categories(shop_db).add_paths([["Top", f"Shelf {number}"] for number in range(subtree.CATEGORIES_AT_ONCE + 5)])
    ids = subtree.ids_below(shop_db, "top")
    for sku, category_id in (("a", ids[1]), ("b", ids[-1]), ("damaged", ids[1])):
        catalog.add(product(sku, category_ids=[category_id]))
    shop_db["commerce.products"].update_one({"_id": "damaged"}, {"$set": {"pricing.retail": "free"}})
    assert skus(catalog.subtree("top", sort="price")) == ["a", "b", "damaged"]


def test_a_cursor_of_another_type_of_value_finds_nothing(shelves: Catalog) -> None:
    forged = paging.cursor_after([("title_lower", 1), ("_id", 1)], {"title_lower": 5, "_id": 7})
    assert shelves.subtree("top", sort="title", cursor=forged).items == []


def test_what_a_subtree_refuses(shelves: Catalog) -> None:
    with pytest.raises(UnknownCategory):
        shelves.subtree("nowhere")
    with pytest.raises(UnknownCategory):
        shelves.subtree_facets("nowhere", by=["type"])
    refused: list[Document] = [{"sort": "relevance"}, {"cursor": "x"}, {"limit": 0}, {"type": {"$gt": ""}}]
    for given in refused:
        with pytest.raises(Invalid) as caught:
            shelves.subtree("top", **given)
        assert caught.value.details["field"] == next(iter(given))
