"""The combinations of filters and sorts that `Catalog.find` allows, and the index that serves each of them in order.

An index serves one equality (the anchor: a type, category, genre, actor or property), then one sort order, then a range
on the field of that order. If a type is combined with another anchor, the same index contains the type. A combination
that would need two array fields in one index, or a sort in memory, is refused; the error names the choices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from squinney import checks
from squinney.commerce.catalog.products import TEXT_LANGUAGE
from squinney.commerce.catalog.words import folded, with_parts
from squinney.errors import Invalid
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Document, Index
from squinney.patterns import attributes, paging
from squinney.patterns.attributes import Range, Value

TITLE, PRICE, DISCOUNT, DATE = "title_lower", "pricing.retail", "pricing.pct_savings", "details.issue_date"
SORTS: Mapping[str, tuple[str, int]] = {
    "title": (TITLE, 1),
    "-title": (TITLE, -1),
    "price": (PRICE, 1),
    "-price": (PRICE, -1),
    "discount": (DISCOUNT, -1),
    "newest": (DATE, -1),
    "oldest": (DATE, 1),
}
RANGES = {"title_prefix": TITLE, "price_between": PRICE, "discount_over": DISCOUNT}
ARRAYS = {"category": "category_ids", "genre": "details.genre", "actor": "details.actor"}
SERVED: Mapping[str, Sequence[str]] = {
    "": (TITLE, PRICE, DISCOUNT, DATE),
    "type": (TITLE, PRICE, DISCOUNT, DATE),
    "category": (TITLE, PRICE, DISCOUNT, DATE),
    "genre": (TITLE, PRICE, DISCOUNT, DATE),
    "actor": (TITLE, DATE),
    "properties": (TITLE, PRICE),
}
HIGHEST = "\U0010ffff"
RELEVANCE = [("score", -1), ("_id", 1)]


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The filters of a search; a product must match all that are set."""

    type: str | None = None
    category: str | None = None
    genre: str | None = None
    actor: str | None = None
    discount_over: int | None = None
    price_between: tuple[int, int] | None = None
    properties: Mapping[str, Value | Range] | None = None
    title_prefix: str | None = None
    words: str | None = None

    def given(self) -> set[str]:
        """Return the names of the filters that are set."""
        return {name for name in self.__dataclass_fields__ if getattr(self, name) not in (None, {})}


# ---- from filters to a query ----


def _browse_query(name: str, where: Document, sort: str, hint: str = "") -> Query:
    field, direction = SORTS[sort]
    return Query(
        f"commerce.find-by-{name} sorted by {sort}",
        "commerce.products",
        where=lambda: where,
        sort=[(field, direction), ("_id", direction)],
        routing="broadcast",
        reason="browsing reads the products of all shards, a page at a time",
        hint=hint,
    )


def after_cursor(query: Query, cursor: str | None) -> Query:
    """Return the query for the products after a cursor. Each branch repeats the filter, so that it uses the index.

    Raises: `Invalid` for an unknown cursor.
    """
    if cursor is None:
        return query
    after = paging.after(query.sort, cursor)
    branches = [{"$and": [query(), branch]} for branch in after.get("$or", [after])]
    return replace(query, where=lambda: {"$or": branches})


def query_for(filters: Filters, sort: str | None) -> Query:
    """Return the query for these filters and this sort order.

    Raises: `Invalid` for a combination that no index serves; the message names the choices.
    """
    wanted = _sort(_anchor(filters), _range(filters), sort)
    where = {**_equalities(filters), **_range_condition(filters)}
    return _browse_query("-and-".join(sorted(filters.given())) or "nothing", where, wanted)


def _anchor(filters: Filters) -> str:
    arrays = sorted(filters.given() & {*ARRAYS, "properties"})
    if len(arrays) > 1:
        raise Invalid(f"{' and '.join(arrays)} cannot be combined: use one of them", field=arrays[1])
    return arrays[0] if arrays else "type" if filters.type is not None else ""


def _range(filters: Filters) -> str | None:
    ranges = sorted(filters.given() & RANGES.keys())
    if len(ranges) > 1:
        raise Invalid(f"{' and '.join(ranges)} cannot be combined: use one of them", field=ranges[1])
    return ranges[0] if ranges else None


def _sort(anchor: str, range_: str | None, sort: str | None) -> str:
    fields = [RANGES[range_]] if range_ else SERVED[anchor]
    choices = [name for name, (field, _) in SORTS.items() if field in fields and field in SERVED[anchor]]
    if not choices:
        raise Invalid(f"{range_} cannot be combined with {anchor}", field=range_)
    if sort is None:
        return choices[0]
    if sort not in choices:
        raise Invalid(f"sort must be one of {', '.join(choices)} with these filters", field="sort", choices=choices)
    return sort


def _equalities(filters: Filters) -> Document:
    where: Document = {}
    for name, path in {"type": "type", **ARRAYS}.items():
        if (value := getattr(filters, name)) is not None:
            where[path] = checks.text(value, name, min_length=1, max_length=200)
    if filters.properties:
        if not isinstance(filters.properties, Mapping):
            raise Invalid("properties must be a mapping of names to values", field="properties")
        if any(isinstance(value, Range) for value in filters.properties.values()):
            raise Invalid("properties must have single values, not ranges", field="properties")
        where.update(attributes.matches(filters.properties))
    return where


def _range_condition(filters: Filters) -> Document:
    if filters.title_prefix is not None:
        prefix = folded(checks.text(filters.title_prefix, "title_prefix", min_length=1, max_length=200))
        return {TITLE: {"$gte": prefix, "$lt": prefix + HIGHEST}}
    if filters.discount_over is not None:
        return {DISCOUNT: {"$gt": checks.integer(filters.discount_over, "discount_over", minimum=0, maximum=100)}}
    if filters.price_between is not None:
        low, high = _price_bounds(filters.price_between)
        return {PRICE: {"$gte": low, "$lte": high}}
    return {}


def _price_bounds(bounds: Any) -> tuple[int, int]:
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise Invalid("price_between must be two prices", field="price_between")
    return checks.integer(bounds[0], "price_between"), checks.integer(bounds[1], "price_between")


# ---- words ----


def words_filter(filters: Filters, sort: str | None) -> Document:
    """Return the filter of a search for words.

    Raises: `Invalid`.
    """
    if sort not in (None, "relevance"):
        raise Invalid("sort must be relevance when words are searched", field="sort", choices=["relevance"])
    if range_ := _range(filters):
        raise Invalid(f"{range_} cannot be combined with words", field=range_)
    _anchor(filters)
    words = checks.text(filters.words, "words", min_length=1, max_length=200)
    return {"$text": {"$search": with_parts(words)}, **_equalities(filters)}


def _words(where: Document, after: Document | None, limit: int) -> list[Document]:
    return [
        {"$match": where},
        {"$set": {"score": {"$meta": "textScore"}}},
        *([{"$match": after}] if after else []),
        {"$sort": dict(RELEVANCE)},
        {"$limit": limit},
    ]


WORDS = Pipeline(
    "commerce.find-words",
    "commerce.products",
    stages=_words,
    example={"where": {"$text": {"$search": "jazz"}}, "after": None, "limit": 51},
    routing="broadcast",
    reason="products of all shards are sorted by relevance",
)

# ---- facets ----

COUNTED = {"brand": "brand", **ARRAYS, "properties": "properties"}
FACETS: Mapping[str, list[Document]] = {
    "type": [{"$sortByCount": "$type"}],
    # $unwind passes single values through, and leaves out products without a value.
    **{name: [{"$unwind": f"${path}"}, {"$sortByCount": f"${path}"}] for name, path in COUNTED.items()},
    "price": [{"$bucketAuto": {"groupBy": f"${PRICE}", "buckets": 5}}],
}


def _facets(where: Document, by: Sequence[str], limit: int, up_to: int | None) -> list[Document]:
    counted: Document = {name: [*FACETS[name], {"$limit": limit}] for name in by}
    return [
        {"$match": where or {TITLE: {"$gte": ""}}},
        *([{"$limit": up_to}] if up_to else []),
        {"$project": dict.fromkeys(["type", *COUNTED.values(), PRICE], 1)},
        {"$facet": {**counted, "total": [{"$count": "count"}]}},
    ]


COUNT_FACETS = Pipeline(
    "commerce.facets",
    "commerce.products",
    stages=_facets,
    example={"where": {"type": "Film"}, "by": ["genre"], "limit": 20, "up_to": 10_000},
    routing="broadcast",
    reason="counts the products of all shards",
)

# ---- the indexes, and the combinations they serve ----


def _index(anchor: str, field: str) -> Index:
    if anchor == "properties":
        head = [("properties.n", 1), ("properties.v", 1)]
    else:
        head = [] if not anchor else [(ARRAYS.get(anchor, anchor), 1)]
    tail = [] if anchor in ("", "type") else [("type", 1)]
    return Index([*head, (field, 1), ("_id", 1), *tail], why=f"find() by {anchor or 'nothing'}, sorted by {field}")


WEIGHTS = {"title": 10, "title_parts": 5, "details.artist": 5, "details.actor": 5, "description": 1}
PRODUCTS = Collection(
    "commerce.products",
    formerly="products",
    indexes=[
        *(_index(anchor, field) for anchor, fields in SERVED.items() for field in fields),
        Index(
            [(field, "text") for field in WEIGHTS],
            weights=WEIGHTS,
            default_language="none",  # a language has stop words, which hide films called Up, Her and It
            language_override=TEXT_LANGUAGE,
            why="find() by words",
        ),
    ],
    shard_key={"_id": "hashed"},
)

EXAMPLES: Mapping[str, Any] = {
    "type": "Film",
    "category": "c3",
    "genre": "Jazz",
    "actor": "Actor 7",
    "properties": {"Color": "red"},
    "title_prefix": "the ",
    "price_between": (500, 1_500),
    "discount_over": 20,
}


def combinations() -> Iterator[tuple[Filters, str]]:
    """Yield every combination of filters and sort order that `find` allows, with example values."""
    for names in product(["", *ARRAYS, "properties"], ["", "type"], ["", *RANGES]):
        filters = Filters(**{name: EXAMPLES[name] for name in names if name})
        for sort in SORTS:
            with suppress(Invalid):
                query_for(filters, sort)
                yield filters, sort


def in_categories(category_ids: Sequence[str], sort: str, more: Mapping[str, Any] = {}) -> Query:
    """Return the query for products in any of these categories, with a hint.

    Without the hint, the server sorts in memory if it expects few products.
    """
    where = {"category_ids": {"$in": category_ids}, **more}
    return _browse_query("categories", where, sort, _index("category", SORTS[sort][0]).name)


OUTDATED = Query(
    "commerce.outdated",
    "commerce.products",
    where=lambda version, after: {"_id": {"$gt": after}, "schema_version": {"$lt": version}},
    example={"version": 2, "after": ""},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="repair() reads the products of all shards",
)

QUERIES: list[Query | Pipeline] = [
    *(in_categories(["c3", "c4"], sort) for sort in SORTS),
    *(query_for(filters, sort) for filters, sort in combinations()),
    WORDS,
    COUNT_FACETS,
    OUTDATED,
]
