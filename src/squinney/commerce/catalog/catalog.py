"""`Catalog`: products of many types in one collection, with searches that an index always serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError
from pymongo.read_preferences import Primary, _ServerMode

from squinney import checks
from squinney.commerce.catalog import imports, queries, search, subtree
from squinney.commerce.catalog.imports import Existing, Report
from squinney.commerce.catalog.products import TYPES, Product, new_product, product_from
from squinney.commerce.catalog.search import Filters
from squinney.commerce.categories import queries as category_queries
from squinney.commerce.categories.tree import unknown_categories
from squinney.commerce.documents import COUNTS, MAX_REMOVED_IDS
from squinney.commerce.errors import ProductReserved, UnknownProduct
from squinney.commerce.inventory import queries as stock_queries
from squinney.commerce.inventory.steps import added_id_of
from squinney.errors import Conflict, Invalid, SquinneyError
from squinney.mongo.deadlines import operation, seconds_left
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns import attributes, paging
from squinney.patterns.paging import Page
from squinney.transactions import AlreadyExists, Key, Plan, Stale, Step, Transactions, Tries, once


class Catalog:
    """The product catalog. `types` maps a product type to the Pydantic model of its details.

    The details of other types may have any fields. `read_preference` applies to methods that only read; methods that
    write always read from the primary.
    """

    def __init__(
        self,
        db: Db,
        *,
        types: Mapping[str, type[BaseModel]] = TYPES,
        read_preference: _ServerMode | None = None,
        transactions: Transactions | None = None,
    ) -> None:
        self._db = pinned(db)
        self._reading: Db = self._db.with_options(read_preference=read_preference or Primary())
        self._types = dict(types)
        self._transactions = transactions or Transactions(db)

    def register(self, type_name: str, model: type[BaseModel]) -> None:
        """Validate the details of this product type with the model from now on."""
        self._types[checks.text(type_name, "type", min_length=1, max_length=200)] = model

    # ---- one product ----

    @operation()
    def add(self, product: Mapping[str, Any], *, key: str | Key | None = None, also: Sequence[Step] = ()) -> Product:
        """Add a product, once per `key`; `_id` is its SKU. The savings are computed from the prices.

        Atomic: one insert; with a key or further steps, in one transaction with these.
        After a crash: nothing is left.
        Raises: `Invalid`, `AlreadyExists`; with a key also `KeyReused` and `Busy`.
        """
        given = product_from(product, self._types)

        def insert(session: ClientSession | None = None) -> Product:
            stored = new_product(given)
            self._require_categories(stored["category_ids"], session)
            self._db["commerce.products"].insert_one(dict(stored), session=session)
            return stored

        try:
            if key is None and not also:
                return insert()
            own = {"commerce.products"}
            return once(self._db, "product add", insert, key=key, arguments={"product": given}, also=also, own=own)
        except DuplicateKeyError as error:
            raise AlreadyExists(f"product {given['_id']} exists already", sku=given["_id"]) from error

    def _require_categories(self, category_ids: Iterable[str], session: ClientSession | None = None) -> None:
        if unknown := unknown_categories(self._db, category_ids, session):
            raise Invalid(f"category_ids: there is no category {min(unknown)}", field="category_ids")

    @operation()
    def replace(self, sku: str, product: Mapping[str, Any], *, expected_version: int) -> Product:
        """Replace the product if it still has the expected version.

        Raises: `Invalid`, `UnknownProduct`, `Stale` if the product has another version.
        """
        checks.identifier(sku, "sku")
        checks.integer(expected_version, "expected_version", minimum=1, maximum=checks.INT64_MAX - 1)
        given = product_from({**product, "_id": sku}, self._types)
        self._require_version(current := self._get(self._db, sku), expected_version)
        if stored := self._store(given, current):
            return stored
        self._require_version(self._get(self._db, sku), expected_version)
        raise Stale(f"product {sku} was removed and added again", sku=sku)

    def _require_version(self, product: Product, expected: int) -> None:
        if product["version"] != expected:
            version = product["version"]
            raise Stale(f"product {product['_id']} has version {version}", sku=product["_id"], version=version)

    @operation()
    def patch(self, sku: str, changes: Mapping[str, Any], *, expected_version: int | None = None) -> Product:
        """Change some fields of a product: `None` removes a field, and nested objects and properties are merged.

        Atomic: one update; the guard on the version decides. Without `expected_version`, the change is retried on the
        version that another caller wrote.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownProduct`, `Stale`, `Busy`.
        """
        if not isinstance(changes, Mapping) or not changes.keys().isdisjoint({"_id", "sku"}):
            raise Invalid("changes must be an object without the SKU", field="changes")
        tries = Tries(seconds_left() / 2)
        while True:
            current = self._get(self._db, sku)
            if expected_version is not None:
                self._require_version(current, expected_version)
            named = {**current, "properties": attributes.mapping(current.get("properties", []))}
            if stored := self._store(product_from(_merged(named, changes), self._types), current):
                return stored
            tries.pause()

    def _store(self, given: Product, current: Product) -> Product | None:
        """Replace the current product; return None if it has changed since."""
        self._require_categories(set(given["category_ids"]) - set(current.get("category_ids", [])))
        added_id = current.get("added_id")
        # guard: a product keeps its id when it changes
        stored = {**given, "version": current["version"] + 1, "added_id": added_id}
        # guard: a change does not replace a product that was removed and added again
        where = {"_id": current["_id"], "version": current["version"], "added_id": added_id}
        return stored if self._db["commerce.products"].replace_one(where, stored).matched_count else None

    @operation()
    def remove(self, sku: str, *, also: Sequence[Step] = ()) -> None:
        """Remove a product that is in no cart. Its stock is kept, but can no longer be reserved.

        Atomic: one `Transactions` run deletes the product and notes its `added_id` in the stock. A product added later
        under the same SKU has another id, so its stock can be reserved.
        After a crash: nothing remains.
        Raises: `UnknownProduct`, `ProductReserved`, `Busy`, `Unavailable`.
        """
        self._transactions.run("remove product", lambda: self._removal_plan(sku).also(also))

    def _removal_plan(self, sku: str) -> Plan:
        product = self._get(self._db, sku)
        # guard: a removal deletes the product whose id it notes
        guard = {"added_id": product.get("added_id")}
        removal = Step(
            "commerce.products", sku, guard=guard, delete=True, refused=lambda _: Stale("the product was removed")
        )
        removed = {"removed_ids": [added_id_of(product)]}
        if stock_queries.STOCK.find_one(self._db, sku=sku, projection={"_id": 1}) is None:
            nothing = {**dict.fromkeys(COUNTS, 0), **removed}
            note = Step("commerce.stock", sku, insert=nothing, refused=lambda _: Stale("the product has stock now"))
        else:
            # guard: the stock notes all removed products
            push = {"removed_ids": {"$each": removed["removed_ids"], "$slice": -MAX_REMOVED_IDS}}
            note = Step("commerce.stock", sku, guard={"carted": 0}, update={"$push": push}, refused=_reserved(sku))
        return Plan([removal, note])

    @operation(reads_only=True)
    def get(self, sku: str) -> Product:
        """Return the product.

        Raises: `UnknownProduct`.
        """
        return self._get(self._reading, sku)

    def _get(self, db: Db, sku: str) -> Product:
        product = queries.PRODUCT.find_one(db, sku=checks.identifier(sku, "sku"))
        if product is None:
            raise UnknownProduct(f"there is no product {sku}", sku=sku)
        return product

    @operation(reads_only=True)
    def get_many(self, skus: Sequence[str]) -> list[Product]:
        """Return the products that exist, in the order of `skus`.

        Raises: `Invalid` for more than 1,000 SKUs.
        """
        if len(skus) > 1_000:
            raise Invalid("skus must have at most 1000 items", field="skus", limit=1_000)
        wanted = [checks.identifier(sku, "sku") for sku in skus]
        products = {product["_id"]: product for product in queries.PRODUCTS.find(self._reading, skus=wanted)}
        return [products[sku] for sku in wanted if sku in products]

    @operation(reads_only=True)
    def get_with_categories(self, sku: str) -> Product:
        """Return the product with its `categories`, which include their ancestors. Two queries.

        Raises: `UnknownProduct`.
        """
        product = self.get(sku)
        ids = product.get("category_ids", [])
        categories = {
            category["_id"]: category
            for category in category_queries.CATEGORIES_BY_ID.find(self._reading, category_ids=ids)
        }
        return {**product, "categories": [categories[category_id] for category_id in ids if category_id in categories]}

    # ---- many ----

    @operation(reads_only=True)
    def find(
        self, *, sort: str | None = None, cursor: str | None = None, limit: int = 50, **filters: Any
    ) -> Page[Product]:
        """Return a page of the products that match all filters.

        `sort` is `title`, `-title`, `price`, `-price`, `discount`, `newest` or `oldest`; results of a word search are
        sorted by relevance. Filters: `type`, `category` (an id), `genre`, `actor`, `properties` (name to value),
        `discount_over` (percent), `price_between` (two prices), `title_prefix`, `words`. `search.py` has the allowed
        combinations.

        Raises: `Invalid` for a combination that no index serves; the message names the choices.
        """
        wanted = _filters(filters)
        if wanted.words is not None:
            return self._find_words(wanted, sort, cursor, limit)
        return paging.page(self._reading, search.after_cursor(search.query_for(wanted, sort), cursor), limit=limit)

    def _find_words(self, wanted: Filters, sort: str | None, cursor: str | None, limit: int) -> Page[Product]:
        checks.integer(limit, "limit", minimum=1, maximum=200)
        where = search.words_filter(wanted, sort)
        after = None if cursor is None else paging.after(search.RELEVANCE, cursor)
        products = search.WORDS.run(self._reading, where=where, after=after, limit=limit + 1)
        return paging.page_from(list(products), search.RELEVANCE, limit=limit)

    @operation(reads_only=True)
    def facets(self, *, by: Sequence[str], limit: int = 20, up_to: int | None = None, **filters: Any) -> dict[str, Any]:
        """Count the matching products, in total and for each value of the fields in `by`. One round trip.

        `by`: `type`, `brand`, `category`, `genre`, `actor`, `properties`, `price`. Each field lists its `limit` most
        frequent values. With `up_to`, at most that many products are counted, and `complete` tells whether that was
        all of them.

        Raises: `Invalid`, as `find`, and for a field that cannot be counted.
        """
        wanted = _filters(filters)
        where = search.words_filter(wanted, None) if wanted.words is not None else search.query_for(wanted, None)()
        return self._count_facets(where, by, limit, up_to)

    def _count_facets(self, where: Document, by: Sequence[str], limit: int, up_to: int | None) -> dict[str, Any]:
        if unknown := [name for name in by if name not in search.FACETS]:
            raise Invalid(f"by must be some of {', '.join(search.FACETS)}, not {unknown[0]}", field="by")
        checks.integer(limit, "limit", minimum=1, maximum=200)
        if up_to is not None:
            checks.integer(up_to, "up_to", minimum=1)
        counted = next(search.COUNT_FACETS.run(self._reading, where=where, by=list(by), limit=limit, up_to=up_to))
        total = sum(row["count"] for row in counted.pop("total"))
        values = {
            name: [{"value": row["_id"], "count": row["count"]} for row in rows] for name, rows in counted.items()
        }
        return {"total": total, **values} if up_to is None else {"total": total, "complete": total < up_to, **values}

    @operation(60, reads_only=True)
    def subtree(
        self,
        category: str,
        *,
        type: str | None = None,
        sort: str = "title",
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[Product]:
        """Return a page of the products in a category (a slug) or in its descendants; `sort` is as in `find`.

        Two queries read the tree. Then one or two sorted queries for every 50 categories are merged.

        Raises: `UnknownCategory`; `Invalid`, also for an unknown cursor.
        """
        checks.integer(limit, "limit", minimum=1, maximum=200)
        return subtree.page_below(self._reading, subtree.ids_below(self._reading, category), type, sort, cursor, limit)

    @operation(60, reads_only=True)
    def subtree_facets(
        self, category: str, *, by: Sequence[str], limit: int = 20, type: str | None = None, up_to: int | None = None
    ) -> dict[str, Any]:
        """Count the products of `subtree`, as `facets` does.

        Raises: `UnknownCategory`, `Invalid`.
        """
        where = subtree.subtree_filter(subtree.ids_below(self._reading, category), type)
        return self._count_facets(where, by, limit, up_to)

    def import_products(
        self,
        lines: Iterable[str | bytes],
        *,
        existing: Existing = "refuse",
        progress: Callable[[int], None] | None = None,
    ) -> Report:
        """Add products from JSON lines. Bad lines are reported by number, and the other lines are imported.

        `existing` selects what happens to a product that exists: `refuse` reports its line as bad, `skip` keeps the
        product, `replace` replaces it. `progress` is called with the number of lines read so far.

        Atomic: each product separately.
        After a crash: some products are missing; run it again with `skip`.
        Raises: `Invalid`, `Unavailable`.
        """
        return imports.import_products(self._db, lines, self._types, existing=existing, progress=progress)


def _filters(given: Mapping[str, Any]) -> Filters:
    if unknown := given.keys() - Filters.__dataclass_fields__.keys():
        raise Invalid(f"{min(unknown)} is not a filter", field=min(unknown))
    return Filters(**given)


def _merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> Document:
    merged = {**old, **changes}
    for name, value in changes.items():
        if isinstance(value, Mapping) and isinstance(old.get(name), Mapping):
            merged[name] = _merged(old[name], value)
    return {name: value for name, value in merged.items() if value is not None}


def _reserved(sku: str) -> Callable[[Document | None], SquinneyError]:
    def error_for(stock: Document | None) -> SquinneyError:
        if stock is None or not stock["carted"]:
            return Conflict(f"another operation is changing the stock of {sku}; try again")
        return ProductReserved(f"{stock['carted']} units of {sku} are in carts", sku=sku, carted=stock["carted"])

    return error_for
