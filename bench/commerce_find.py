"""Browsing a million products compared with the plain driver; facets; and the cost of the indexes for an import."""

from __future__ import annotations

import json
import os
import random
import statistics
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bench import report
from bench._commerce_processes import fresh
from bench.harness import Contender, Series, compare
from squinney.commerce import Catalog
from squinney.commerce.catalog.search import PRODUCTS as PRODUCTS_COLLECTION
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

PRODUCTS = int(os.environ.get("SQUINNEY_BENCH_PRODUCTS", "1000000"))
IMPORTED = 20_000
GENRES = [f"genre {number}" for number in range(20)]
NEWEST = [("details.issue_date", -1), ("_id", -1)]
MAX_P99 = 1.2
START = datetime(1950, 1, 1, tzinfo=UTC)


def run(connection: Connection, *, rounds: int = 9, seconds: float = 1.5, products: int = PRODUCTS) -> None:
    """Run the benchmark and write its page."""
    import_parts = _imports(fresh(connection))
    db = fresh(connection)
    built = _fill(db, products)
    driver, ours = _pages(db, rounds, seconds)
    ratio = ours.percentile(0.99) / driver.percentile(0.99)
    met = "met" if ratio <= MAX_P99 else "missed"
    rows = [
        [contender.name, f"{contender.rate:,.0f}", *(f"{contender.percentile(share):.2f}" for share in (0.5, 0.99))]
        for contender in (driver, ours)
    ]
    by = ["type", "genre", "price"]
    took = statistics.median(_facets(db, by) for _ in range(3))
    parts = [
        f"Each page has 50 products of a genre, newest first, out of {products:,} products with all {built} indexes; "
        f"one thread, {rounds} alternating rounds of {seconds:g} s.",
        report.table(["contender", "pages/s", "p50 ms", "p99 ms"], rows),
        f"Goal: a p99 of at most {MAX_P99}x that of the plain driver's cursor. {ratio:.2f}x: {met}. `find` reads one "
        "more product, to know whether there is another page.",
        f"Facets by {', '.join(by)} of the {products // len(GENRES):,} products of one genre: one round trip, "
        f"{took:.2f} s. All of these products are read and counted.",
        *import_parts,
        report.machine(connection.client.admin.command("buildInfo")["version"]),
    ]
    connection.client.drop_database(db.name)
    report.write_page("commerce_find", "The shop: browsing a million products", parts)
    print("\n\n".join(parts))


def _pages(db: Db, rounds: int, seconds: float) -> list[Series]:
    catalog = Catalog(db)
    chance = random.Random(1)

    def ours(thread: int) -> None:
        assert len(catalog.find(genre=chance.choice(GENRES), sort="newest", limit=50).items) == 50

    def driver(thread: int) -> None:
        assert (
            len(list(db["commerce.products"].find({"details.genre": chance.choice(GENRES)}).sort(NEWEST).limit(50)))
            == 50
        )

    contenders = [Contender("plain driver", driver), Contender("find", ours)]
    return compare(contenders, threads=1, rounds=rounds, seconds=seconds)


def _facets(db: Db, by: list[str]) -> float:
    began = time.perf_counter()
    Catalog(db).facets(by=by, genre=GENRES[3])
    return time.perf_counter() - began


# ---- the cost of the indexes ----


def _imports(db: Db) -> list[str]:
    """Import the same lines into catalogs with all indexes, without the text index, and without any index."""
    lines = [json.dumps(_line(number)) for number in range(IMPORTED)]
    every = PRODUCTS_COLLECTION.indexes
    kinds = {
        f"all {len(every)} indexes": every,
        "all but the text index": [index for index in every if index.weights is None],
        "none": [],
    }
    rows, without = [], 0.0
    for name, indexes in reversed(kinds.items()):
        db["commerce.products"].drop()
        db["commerce.categories"].drop()
        db["commerce.categories"].insert_many({"_id": f"c{number}"} for number in range(1_000))
        schema.apply(db, [replace(PRODUCTS_COLLECTION, indexes=indexes)])
        began = time.perf_counter()
        assert Catalog(db).import_products(lines).imported == IMPORTED
        took = time.perf_counter() - began
        without = without or took
        size = db.command("collStats", "products")["totalIndexSize"] / IMPORTED
        rows.append([name, f"{IMPORTED / took:,.0f}", f"{took / without:.2f}x", f"{size:,.0f}"])
    head = ["indexes", "products/s", "time relative to no indexes", "index bytes per product"]
    return [
        "## The cost of the indexes for an import",
        f"`import_products` imports {IMPORTED:,} products, validation included.",
        report.table(head, rows),
    ]


def _line(number: int) -> dict[str, Any]:
    chance = random.Random(number)
    details = {
        "genre": chance.sample(GENRES, 2),
        "actor": [f"Actor {chance.randrange(5_000)}" for _ in range(3)],
        "issue_date": (START + timedelta(days=chance.randrange(25_000))).isoformat(),
    }
    return {
        "_id": f"p{number}",
        "type": "Film",
        "title": f"Film {chance.randrange(10**6)} of the prairie",
        "description": " ".join(f"word{chance.randrange(20_000)}" for _ in range(20)),
        "category_ids": [f"c{chance.randrange(1_000)}"],
        "pricing": {"list": 1_000, "retail": chance.randrange(200, 1_000), "currency": "EUR"},
        "details": details,
        "properties": {"Format": chance.choice(["DVD", "Blu-ray"]), "Discs": chance.randrange(1, 5)},
    }


# ---- a million products ----


def _fill(db: Db, count: int) -> int:
    """Insert the products, then build all indexes at once, which is fastest; return the number of indexes."""
    db["commerce.products"].drop()
    for first in range(0, count, 10_000):
        many = [product(number) for number in range(first, min(count, first + 10_000))]
        db["commerce.products"].insert_many(many, ordered=False)
    schema.apply(db, [PRODUCTS_COLLECTION])
    return len(PRODUCTS_COLLECTION.indexes)


def product(number: int) -> dict[str, Any]:
    """Return a product document as `Catalog` would store it."""
    pricing = {"list": 1_000, "retail": 500 + number % 500, "savings": 500, "pct_savings": 50, "currency": "EUR"}
    details = {"genre": [GENRES[number % len(GENRES)]], "issue_date": START + timedelta(hours=number * 7919 % 600_000)}
    common = {"type": "Film", "title": f"Film {number}", "title_lower": f"film {number}", "category_ids": []}
    return {"_id": f"p{number}", **common, "pricing": pricing, "details": details, "properties": [], "version": 1}
