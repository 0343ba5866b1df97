"""The queries on products by SKU; `search.py` has the queries of searches."""

from __future__ import annotations

from squinney.mongo.queries import Query, declared

PRODUCT = Query("commerce.product", "commerce.products", where=lambda sku: {"_id": sku}, example={"sku": "s"})
PRODUCTS = Query(
    "commerce.products-by-sku",
    "commerce.products",
    where=lambda skus: {"_id": {"$in": skus}},
    example={"skus": ["s", "t"]},
    routing="few",
    reason="the products of a list are on several shards",
)

QUERIES = declared(globals())
