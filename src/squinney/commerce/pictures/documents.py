"""The shape and the collection of product pictures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from squinney.mongo.schema import Collection, Document, Index


class Size(TypedDict):
    """One size in which a picture can be read. A drawing (SVG) has only one, which fits every width."""

    width: int
    height: int
    type: str


class Picture(TypedDict):
    """A picture of a product, without its bytes. `product_id` is the product's `added_id`, never used twice."""

    _id: str
    sku: str
    product_id: str
    alt: str
    at: datetime
    sizes: list[Size]


PICTURES = Collection(
    "commerce.pictures",
    indexes=[
        Index([("sku", 1), ("_id", 1)], why="the pictures of the products of a page, oldest first"),
        Index([("product_id", 1), ("sku", 1), ("_id", 1)], why="forget_lost() reads no bytes of pictures"),
    ],
    shard_key={"sku": "hashed"},
    validator={"$jsonSchema": {"required": ["sku", "product_id", "alt", "at", "sizes"]}},
)


def picture_document(
    picture_id: str, sku: str, product_id: str, alt: str, at: datetime, sizes: Sequence[tuple[Size, bytes]]
) -> Document:
    """Return the document to store: `sizes` with their bytes, smallest first."""
    stored = [{**size, "bytes": content} for size, content in sizes]
    return {"_id": picture_id, "sku": sku, "product_id": product_id, "alt": alt, "at": at, "sizes": stored}
