"""Imports products from JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import BaseModel
from pymongo import InsertOne, UpdateOne
from pymongo.errors import BulkWriteError

from squinney.commerce.catalog.products import Product, new_product, product_from
from squinney.commerce.categories.tree import unknown_categories
from squinney.errors import Invalid, Unavailable
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import DUPLICATE_KEY, Db

Existing = Literal["refuse", "skip", "replace"]
BATCH = 1_000
MAX_REPORTED = 10_000

Row = tuple[int, Product]


@dataclass
class Report:
    """The result of an import. `bad` lists line numbers, from 1, with reasons; `refused` counts all bad lines."""

    imported: int = 0
    replaced: int = 0
    skipped: int = 0
    refused: int = 0
    bad: list[tuple[int, str]] = field(default_factory=list)

    def refuse(self, line: int, reason: str) -> None:
        """Record a bad line."""
        self.refused += 1
        if len(self.bad) < MAX_REPORTED:
            self.bad.append((line, reason))


def import_products(
    db: Db,
    lines: Iterable[str | bytes],
    types: Mapping[str, type[BaseModel]],
    *,
    existing: Existing,
    progress: Callable[[int], None] | None,
) -> Report:
    """Import the valid lines in batches of 1,000; report the others."""
    if existing not in get_args(Existing):
        raise Invalid(f"existing must be one of {', '.join(get_args(Existing))}", field="existing")
    report = Report()
    batch: dict[str, Row] = {}
    number = 0
    for number, line in enumerate(lines, start=1):
        product = _parsed(line, number, types, report)
        if product is None:
            continue
        if product["_id"] in batch:
            _write(db, batch, existing, report)
        batch[product["_id"]] = (number, product)
        if len(batch) >= BATCH:
            _write(db, batch, existing, report)
            if progress:
                progress(number)
    _write(db, batch, existing, report)
    if progress:
        progress(number)
    report.bad.sort()
    return report


def _parsed(line: str | bytes, number: int, types: Mapping[str, type[BaseModel]], report: Report) -> Product | None:
    if not line.strip():
        return None
    try:
        return new_product(product_from(json.loads(line), types))
    except (ValueError, RecursionError) as error:
        report.refuse(number, f"not JSON: {error}" if isinstance(error, ValueError) else "nested too deeply")
    except Invalid as error:
        report.refuse(number, error.message)
    return None


@operation(60)
def _write(db: Db, batch: dict[str, Row], existing: Existing, report: Report) -> None:
    if not batch:
        return
    rows = _in_known_categories(db, list(batch.values()), report)
    batch.clear()
    collided = _send(db, rows, existing, report)
    # Two upserts of a new product can collide; the retry then finds the product that the other one inserted.
    for number, product in _send(db, collided, existing, report):
        report.refuse(number, f"other operations are changing product {product['_id']}")


def _in_known_categories(db: Db, rows: list[Row], report: Report) -> list[Row]:
    """Return the rows whose categories exist; report the others."""
    unknown = unknown_categories(db, (id_ for _, product in rows for id_ in product["category_ids"]))
    known = []
    for number, product in rows:
        if missing := unknown.intersection(product["category_ids"]):
            report.refuse(number, f"category_ids: there is no category {min(missing)}")
        else:
            known.append((number, product))
    return known


def _send(db: Db, rows: list[Row], existing: Existing, report: Report) -> list[Row]:
    """Write the rows in one batch; return the rows whose upsert collided with another writer."""
    if not rows:
        return []
    requests: list[Any] = [_request(product, existing) for _, product in rows]
    try:
        result = db["commerce.products"].bulk_write(requests, ordered=False)
    except BulkWriteError as error:
        return _count_errors(error, rows, existing, report)
    report.imported += result.inserted_count + result.upserted_count
    report.replaced += result.matched_count
    return []


def _request(product: Product, existing: Existing) -> InsertOne[Product] | UpdateOne:
    # A replaced product gets the next version, so that a user who is editing the old one gets a conflict.
    if existing != "replace":
        return InsertOne(product)
    version = {"$add": [{"$ifNull": ["$version", 0]}, 1]}
    # guard: an imported product keeps its id when it is replaced
    kept = {"version": version, "added_id": {"$ifNull": ["$added_id", product["added_id"]]}}
    replaced = {"$mergeObjects": [{"$literal": product}, kept]}
    return UpdateOne({"_id": product["_id"]}, [{"$replaceWith": replaced}], upsert=True)


def _count_errors(error: BulkWriteError, rows: list[Row], existing: Existing, report: Report) -> list[Row]:
    details: Mapping[str, Any] = error.details or {}
    if details.get("writeConcernErrors"):
        raise Unavailable("too few members have confirmed the products", outcome_unknown=True) from error
    report.imported += details.get("nInserted", 0) + details.get("nUpserted", 0)
    report.replaced += details.get("nMatched", 0)
    collided = []
    for problem in details.get("writeErrors", []):
        number, product = rows[problem["index"]]
        if problem["code"] != DUPLICATE_KEY:
            report.refuse(number, problem["errmsg"])
        elif existing == "replace":
            collided.append((number, product))
        elif existing == "skip":
            report.skipped += 1
        else:
            report.refuse(number, f"product {product['_id']} exists already")
    return collided
