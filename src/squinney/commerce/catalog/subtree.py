"""Finds the products in a category and its descendants: sorted queries for batches of categories, merged here."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice
from typing import Any

from squinney import checks
from squinney.commerce.catalog import search
from squinney.commerce.catalog.products import Product
from squinney.commerce.categories import queries
from squinney.commerce.errors import UnknownCategory
from squinney.errors import Invalid
from squinney.mongo.paths import value_at
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db, Document
from squinney.patterns import paging
from squinney.patterns.paging import Page

# The server merges up to 200 index ranges in order, and sorts more in memory. Equality with null needs two ranges.
CATEGORIES_AT_ONCE = 50
SORTED_TYPES = (int | float, str, datetime)


def ids_below(db: Db, slug: str) -> list[str]:
    """Return the ids of the category and its descendants. Two queries.

    Raises: `UnknownCategory`.
    """
    top = queries.CATEGORY.find_one(db, slug=checks.text(slug, "category", max_length=100))
    if top is None:
        raise UnknownCategory(f"there is no category {slug}", slug=slug)
    below = queries.DESCENDANTS.find(db, category_id=top["_id"], projection={"_id": 1})
    return [top["_id"], *(category["_id"] for category in below)]


def page_below(db: Db, ids: list[str], kind: str | None, sort: str, cursor: str | None, limit: int) -> Page[Product]:
    """Return a sorted page of the products in these categories, each product once.

    Raises: `Invalid`.
    """
    if sort not in search.SORTS:
        choices = list(search.SORTS)
        raise Invalid(f"sort must be one of {', '.join(choices)}", field="sort", choices=choices)
    field, direction = search.SORTS[sort]
    order = [(field, direction), ("_id", direction)]
    last = paging.cursor_keys(order, cursor) if cursor is not None else None
    chunks = [ids[start : start + CATEGORIES_AT_ONCE] for start in range(0, len(ids), CATEGORIES_AT_ONCE)]
    streams = [_in_categories(db, chunk, kind, sort, last, limit) for chunk in chunks]
    merged = heapq.merge(*streams, key=lambda product: _sort_key(product, field), reverse=direction < 0)
    return paging.page_from(list(islice(_distinct(merged), limit + 1)), order, limit=limit)


def subtree_filter(ids: list[str], kind: str | None) -> Document:
    """Return the filter for products in any of these categories."""
    return {"category_ids": {"$in": ids}, **_type_filter(kind)}


def _type_filter(kind: str | None) -> Document:
    return {} if kind is None else {"type": checks.text(kind, "type", min_length=1, max_length=200)}


def _in_categories(
    db: Db, ids: list[str], kind: str | None, sort: str, last: Document | None, limit: int
) -> Iterator[Product]:
    # Chained lazily: the second query runs only if the first returns too few products.
    queries_in_order = queries_after(search.in_categories(ids, sort, _type_filter(kind)), last)
    return chain.from_iterable(query.find(db).batch_size(limit + 2) for query in queries_in_order)


def queries_after(query: Query, last: Document | None) -> list[Query]:
    """Return the queries for the products after the last product of the previous page.

    The first query finds products with the same sort value, the second query the rest; each starts at its position in
    the index. The first sorts by id only, because the server would sort by both fields in memory. In descending order,
    `$not $gte` also finds products without the field, which sort last and which `$lt` does not match.
    """
    if last is None:
        return [query]
    field, direction = query.sort[0]
    value, operator = last[field], "$gt" if direction > 0 else "$lt"
    same_value = {**query(), field: value, "_id": {operator: last["_id"]}}
    ties = replace(query, where=lambda: same_value, sort=[("_id", direction)])
    if value is None and direction < 0:
        return [ties]
    beyond = {"$ne": None} if value is None else {"$gt": value} if direction > 0 else {"$not": {"$gte": value}}
    return [ties, replace(query, where=lambda: {**query(), field: beyond})]


def _sort_key(product: Mapping[str, Any], field: str) -> tuple[int, Any, str]:
    # The server sorts by type first: a damaged product may have a value that cannot be compared with the others.
    value = value_at(product, field)
    rank = next((rank for rank, kind in enumerate(SORTED_TYPES, start=1) if isinstance(value, kind)), 0)
    return rank, value if rank else 0, str(product["_id"])


def _distinct(products: Iterator[Product]) -> Iterator[Product]:
    # A product in two categories comes twice in a row.
    last = None
    for product in products:
        if product["_id"] != last:
            yield product
        last = product["_id"]
