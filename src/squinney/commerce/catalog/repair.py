"""Products that are damaged, found; those of an older version of this library, brought up to date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pymongo import UpdateOne

from squinney.commerce import problem_queries as queries
from squinney.commerce.catalog.products import SCHEMA_VERSION, damage_of, title_fields
from squinney.commerce.catalog.search import EVERY_PRODUCT, OUTDATED
from squinney.mongo.problems import Problem, found
from squinney.mongo.schema import Db, Document

BATCH = 1_000


def find_problems(db: Db) -> Iterator[Problem]:
    """Those that are damaged, and one problem for all that are outdated.

    What the titles are sorted and searched by is computed when a product is stored.
    """
    for product in EVERY_PRODUCT.find(db):
        if why := damage_of(product):
            said = f"product {product['_id']} cannot be shown or sold ({why[:200]})"
            yield Problem("damaged-product", said, documents={"products": product["_id"]})
    for outdated in found(db, queries.OUTDATED_PRODUCTS, version=SCHEMA_VERSION):
        yield Problem(
            "outdated-products",
            f"{outdated['products']} products are sorted and searched as an older version stored them",
            documents={"products": outdated["first"]},
            repairable=True,
        )


def repair(db: Db) -> Counter[str]:
    """Compute it anew, a batch at a time; a product that changes meanwhile is up to date by that."""
    done: Counter[str] = Counter()
    after = ""
    while batch := list(OUTDATED.find(db, version=SCHEMA_VERSION, after=after, limit=BATCH)):
        written = db["products"].bulk_write([_update(product) for product in batch], ordered=False)
        done["products brought up to date"] += written.modified_count
        after = batch[-1]["_id"]
    return done


def _update(product: Document) -> UpdateOne:
    where = {"_id": product["_id"], "version": product["version"], "txn_lock": None}
    fields = title_fields(product["title"], product["details"])
    return UpdateOne(where, {"$set": {**fields, "schema_version": SCHEMA_VERSION}})
