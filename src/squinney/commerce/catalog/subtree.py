"""The products anywhere below a category: a few categories at a time from one index, in order, merged here."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from squinney import checks
from squinney.commerce.catalog import search
from squinney.commerce.catalog.documents import Product
from squinney.commerce.categories import queries
from squinney.commerce.errors import UnknownCategory
from squinney.errors import Invalid
from squinney.mongo.paths import value_at
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db, Document
from squinney.patterns import paging
from squinney.patterns.paging import Page

CATEGORIES_AT_ONCE = (
    50  # the server merges up to 200 index ranges in order, two for each null; more it would sort in memory
)
SortKey = tuple[bool, Any, str]


def ids_below(db: Db, slug: str) -> list[str]:
    """The category and everything below it. Two queries.

    Raises: `UnknownCategory`.
    """
    top = db["categories"].find_one(queries.CATEGORY(slug=checks.text(slug, "category", most=100)))
    if top is None:
        raise UnknownCategory(f"there is no category {slug}", slug=slug)
    below = queries.DESCENDANTS.find(db, category_id=top["_id"], projection={"_id": 1})
    return [top["_id"], *(found["_id"] for found in below)]


def page_below(db: Db, ids: list[str], kind: str | None, sort: str, cursor: str | None, limit: int) -> Page[Product]:
    """A page of the products in these categories, each once, in order.

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


def matching(ids: list[str], kind: str | None) -> Document:
    """The filter for products in any of these categories."""
    return {"category_ids": {"$in": ids}, **_of_type(kind)}


def _of_type(kind: str | None) -> Document:
    return {} if kind is None else {"type": checks.text(kind, "type", least=1, most=200)}


def _in_categories(
    db: Db, ids: list[str], kind: str | None, sort: str, last: Document | None, limit: int
) -> Iterator[Product]:
    """Chained: what comes behind the ties is only asked for where they are too few."""
    asked = behind(search.in_categories(ids, sort, _of_type(kind)), last)
    return chain.from_iterable(query.find(db).batch_size(limit + 2) for query in asked)


def behind(query: Query, last: Document | None) -> list[Query]:
    """What comes behind the last page's end: first what ties with it, then the rest, each from its place in the index.

    Ties are in order of the id alone: the server would sort them in memory if it were asked for the tied field too.
    Products without the field are least, which `$lt` leaves out and `$not` does not.
    """
    if last is None:
        return [query]
    field, direction = query.sort[0]
    value, side = last[field], "$gt" if direction > 0 else "$lt"
    tied = {**query(), field: value, "_id": {side: last["_id"]}}
    ties = replace(query, where=lambda: tied, sort=[("_id", direction)])
    if value is None and direction < 0:
        return [ties]
    beyond = {"$ne": None} if value is None else {"$gt": value} if direction > 0 else {"$not": {"$gte": value}}
    return [ties, replace(query, where=lambda: {**query(), field: beyond})]


def _sort_key(product: Mapping[str, Any], field: str) -> SortKey:
    value = value_at(product, field)
    return value is not None, value if value is not None else 0, str(product["_id"])


def _distinct(products: Iterator[Product]) -> Iterator[Product]:
    """A product in two categories comes twice in a row."""
    last = None
    for product in products:
        if product["_id"] != last:
            yield product
        last = product["_id"]
