"""Finds damaged products, and updates products that an older version of this library stored."""

from __future__ import annotations

from collections.abc import Iterator

from pymongo import UpdateOne

from squinney.commerce import problem_queries as queries
from squinney.commerce.catalog.products import SCHEMA_VERSION, damage_of, title_fields
from squinney.commerce.catalog.search import OUTDATED
from squinney.mongo.problems import Check
from squinney.mongo.schema import Db, Document

BATCH = 1_000


def _damaged(db: Db) -> Iterator[Document]:
    for product in db["commerce.products"].find():
        if why := damage_of(product):
            yield {"_id": product["_id"], "why": why[:200]}


def _update_outdated(db: Db, _: Document) -> int:
    """Recompute the fields for sorting and searching titles; a concurrent change of a product computes them itself."""
    done, after = 0, ""
    while batch := list(OUTDATED.find(db, version=SCHEMA_VERSION, after=after, limit=BATCH)):
        done += (
            db["commerce.products"].bulk_write([_update(product) for product in batch], ordered=False).modified_count
        )
        after = batch[-1]["_id"]
    return done


def _update(product: Document) -> UpdateOne:
    where = {"_id": product["_id"], "version": product["version"]}
    fields = title_fields(product["title"], product["details"])
    return UpdateOne(where, {"$set": {**fields, "schema_version": SCHEMA_VERSION}})


CHECKS = [
    Check("damaged-product", _damaged, "product {_id} cannot be shown or sold ({why})", collection="commerce.products"),
    Check(
        "outdated-products",
        queries.OUTDATED_PRODUCTS,
        "{products} products have the sort and search fields of an older version",
        repair=_update_outdated,
        counted_as="products updated",
        documents=lambda outdated: {"commerce.products": outdated["first"]},
        arguments={"version": SCHEMA_VERSION},
    ),
]
