"""Browsing a million products beside the raw driver's cursor; facets; and what the catalog's indexes cost an import."""

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
MOST_P99 = 1.2
START = datetime(1950, 1, 1, tzinfo=UTC)


def run(connection: Connection, *, rounds: int = 9, seconds: float = 1.5, products: int = PRODUCTS) -> None:
    """Measure and write the page."""
    parts = [*_imports(fresh(connection))]
    db = fresh(connection)
    built = _fill(db, products)
    hand, mine = _pages(db, rounds, seconds)
    ratio = mine.percentile(0.99) / hand.percentile(0.99)
    met = "met" if ratio <= MOST_P99 else "missed"
    rows = [
        [one.name, f"{one.rate:,.0f}", *(f"{one.percentile(share):.2f}" for share in (0.5, 0.99))]
        for one in (hand, mine)
    ]
    by = ["type", "genre", "price"]
    found = statistics.median(_facets(db, by) for _ in range(3))
    parts = [
        f"Fifty products of a genre, newest first, of {products:,}, under all {built} indexes; one thread, {rounds} "
        f"rounds of {seconds:g} s in turns.",
        report.table(["how", "pages/s", "p50 ms", "p99 ms"], rows),
        f"Aim: p99 at most {MOST_P99}x the raw cursor's. {ratio:.2f}x: {met}. `find` also says whether there is "
        "another page, which is one more product to read.",
        f"Facets by {', '.join(by)} over the {products // len(GENRES):,} products of one genre: one round trip, "
        f"{found:.2f} s. Every one of them is read and counted.",
        *parts,
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

    def raw(thread: int) -> None:
        assert len(list(db["products"].find({"details.genre": chance.choice(GENRES)}).sort(NEWEST).limit(50))) == 50

    return compare([Contender("raw cursor", raw), Contender("find", ours)], threads=1, rounds=rounds, seconds=seconds)


def _facets(db: Db, by: list[str]) -> float:
    began = time.perf_counter()
    Catalog(db).facets(by=by, genre=GENRES[3])
    return time.perf_counter() - began


# ---- what the indexes cost ----


def _imports(db: Db) -> list[str]:
    """The same lines into a catalog with all its indexes, without the one for words, and with none."""
    lines = [json.dumps(_line(number)) for number in range(IMPORTED)]
    every = PRODUCTS_COLLECTION.indexes
    kinds = {
        f"all {len(every)} indexes": every,
        "all but the one for words": [one for one in every if one.weights is None],
        "none": [],
    }
    rows, plain = [], 0.0
    for name, indexes in reversed(kinds.items()):
        db["products"].drop()
        db["categories"].drop()
        db["categories"].insert_many({"_id": f"c{number}"} for number in range(1_000))
        schema.apply(db, [replace(PRODUCTS_COLLECTION, indexes=indexes)])
        began = time.perf_counter()
        assert Catalog(db).import_products(lines).imported == IMPORTED
        took = time.perf_counter() - began
        plain = plain or took
        size = db.command("collStats", "products")["totalIndexSize"] / IMPORTED
        rows.append([name, f"{IMPORTED / took:,.0f}", f"{took / plain:.2f}x", f"{size:,.0f}"])
    head = ["import with", "products/s", "time against none", "bytes of indexes a product"]
    return [
        "## What the indexes cost an import",
        f"{IMPORTED:,} products by `import_products`, checks included.",
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


# ---- a million ----


def _fill(db: Db, count: int) -> int:
    """Products first, then the indexes in one build, which is the fastest; returns how many indexes there are."""
    db["products"].drop()
    for first in range(0, count, 10_000):
        many = [product(number) for number in range(first, min(count, first + 10_000))]
        db["products"].insert_many(many, ordered=False)
    schema.apply(db, [PRODUCTS_COLLECTION])
    return len(PRODUCTS_COLLECTION.indexes)


def product(number: int) -> dict[str, Any]:
    """A stored product, for the collection as it is."""
    pricing = {"list": 1_000, "retail": 500 + number % 500, "savings": 500, "pct_savings": 50, "currency": "EUR"}
    details = {"genre": [GENRES[number % len(GENRES)]], "issue_date": START + timedelta(hours=number * 7919 % 600_000)}
    common = {"type": "Film", "title": f"Film {number}", "title_lower": f"film {number}", "category_ids": []}
    return {"_id": f"p{number}", **common, "pricing": pricing, "details": details, "properties": [], "version": 1}
