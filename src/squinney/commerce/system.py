"""Declares commerce to the service, the worker and the checks."""

from __future__ import annotations

from typing import Any

from squinney import commerce
from squinney.commerce import proof
from squinney.commerce.jobs import keep_seconds_for
from squinney.mongo.schema import Db
from squinney.system import Proof, System, counts_of
from squinney.transactions import Transactions


def _build(db: Db, transactions: Transactions) -> dict[str, Any]:
    # guard: an invalid SQUINNEY_KEEP_CARTS_DAYS fails at startup
    keep_seconds_for()  # an invalid setting fails at startup, not when the job first runs
    gateway = commerce.gateway_for(db)
    orders = commerce.Orders(db, payments=gateway, transactions=transactions)
    catalog = commerce.Catalog(db, transactions=transactions)
    return {
        "catalog": catalog,
        "facets": commerce.FacetCache(catalog),
        "categories": commerce.Categories(db),
        "inventory": commerce.Inventory(db, transactions=transactions),
        "pictures": commerce.Pictures(db),
        "carts": commerce.Carts(db, payments=gateway, orders=orders, transactions=transactions),
        "orders": orders,
    }


SYSTEM = System(
    package="squinney.commerce",
    title="Shop",
    what="A catalog, a category tree, carts that reserve stock, and orders paid for exactly once.",
    collections=commerce.COLLECTIONS,
    queries=commerce.QUERIES,
    build=_build,
    jobs=commerce.JOBS,
    find_problems=commerce.find_problems,
    repair=commerce.repair,
    demo=commerce.demo,
    figures=counts_of(
        {"products": "commerce.products", "categories": "commerce.categories", "orders": "commerce.orders"}
    ),
    proof=Proof.of(proof),
    path="shop",
)
