"""Every query on product pictures, declared once."""

from __future__ import annotations

from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document

WITHOUT_BYTES = {"sizes.bytes": 0}

PICTURE = Query(
    "commerce.picture",
    "commerce.pictures",
    where=lambda sku, picture_id: {"sku": sku, "_id": picture_id},
    example={"sku": "s", "picture_id": "p"},
)
PICTURES_OF = Query(
    "commerce.pictures-of",
    "commerce.pictures",
    where=lambda skus: {"sku": {"$in": skus}},
    example={"skus": ["s", "t"]},
    sort=[("sku", 1), ("_id", 1)],
    routing="few",
    reason="the products of one page are on several shards",
)


def _lost() -> list[Document]:
    """Find pictures whose product was removed. A product added later under the same SKU has another `added_id`."""
    return [
        {"$match": {"product_id": {"$gte": ""}}},
        {"$project": {"sku": 1, "product_id": 1}},
        {"$lookup": {"from": "commerce.products", "localField": "sku", "foreignField": "_id", "as": "product"}},
        {"$match": {"$expr": {"$not": [{"$in": ["$product_id", "$product.added_id"]}]}}},
        {"$project": {"sku": 1}},
    ]


LOST_PICTURES = Pipeline(
    "commerce.lost-pictures",
    "commerce.pictures",
    stages=_lost,
    routing="broadcast",
    reason="a job compares all pictures with their products, once an hour",
)
QUERIES: list[Query | Pipeline] = declared(globals())
