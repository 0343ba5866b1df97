"""The products anywhere below a category: a few categories at a time from one index, in order, merged here."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from squinney.commerce import queries, search
from squinney.commerce.documents import Product
from squinney.commerce.errors import UnknownCategory
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document
from squinney.patterns import checks, paging
from squinney.patterns.paging import Page
from squinney.patterns.paths import value_at

CATEGORIES_AT_ONCE = (
    50  # the server merges up to 200 index ranges in order, two for each null; more it would sort in memory
)
Place = tuple[bool, Any, str]


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
    last = paging.keys_of(order, cursor) if cursor is not None else None
    chunks = [ids[start : start + CATEGORIES_AT_ONCE] for start in range(0, len(ids), CATEGORIES_AT_ONCE)]
    streams = [_in_categories(db, chunk, kind, sort, last, limit) for chunk in chunks]
    merged = heapq.merge(*streams, key=lambda product: _place(product, field), reverse=direction < 0)
    return paging.cut(list(islice(_distinct(merged), limit + 1)), order, limit=limit)


def matching(ids: list[str], kind: str | None) -> Document:
    """The filter for products in any of these categories."""
    return {"category_ids": {"$in": ids}, **_of_type(kind)}


def _of_type(kind: str | None) -> Document:
    return {} if kind is None else {"type": checks.text(kind, "type", least=1, most=200)}


def _in_categories(
    db: Db, ids: list[str], kind: str | None, sort: str, last: Document | None, limit: int
) -> Iterator[Product]:
    field, direction = search.SORTS[sort]
    more = {**_of_type(kind), **(_from(field, direction, last[field]) if last else {})}
    found = search.in_categories(ids, sort, more).query().find(db).batch_size(limit + 2)
    if last is None:
        return found
    behind = _place(last, field)
    return (one for one in found if (_place(one, field) > behind if direction > 0 else _place(one, field) < behind))


def _from(field: str, direction: int, value: Any) -> Document:
    """What does not come before the last page's end; products without the field are least, which `$lte` leaves out."""
    if direction > 0:
        return {} if value is None else {field: {"$gte": value}}
    return {field: None if value is None else {"$not": {"$gt": value}}}


def _place(product: Mapping[str, Any], field: str) -> Place:
    value = product[field] if field in product else value_at(product, field)
    return value is not None, value if value is not None else 0, str(product["_id"])


def _distinct(products: Iterator[Product]) -> Iterator[Product]:
    """A product in two categories comes twice in a row."""
    last = None
    for product in products:
        if product["_id"] != last:
            yield product
        last = product["_id"]
