"""The shapes and collections of stock, its movements and its reservations."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NotRequired, TypedDict

from squinney.commerce.documents import COUNTS, INTEGER, NOT_NEGATIVE
from squinney.mongo.schema import Collection, Index


class Stock(TypedDict):
    """Units of one SKU: received + adjusted = qty (available) + carted + sold.

    `removed_ids` has the `added_id` of each removed product with this SKU: these products cannot be reserved.
    """

    _id: str
    received: int
    adjusted: int
    qty: int
    carted: int
    sold: int
    removed_ids: NotRequired[list[str]]


class Movement(TypedDict):
    """One change of a SKU's stock. `qty` is positive for units that came in, negative for units that left."""

    _id: str
    sku: str
    kind: Literal["received", "adjusted", "sold", "restocked"]
    qty: int
    reason: str
    at: datetime


STOCK = Collection(
    "commerce.stock",
    formerly="stock",
    shard_key={"_id": "hashed"},
    validator={
        "$jsonSchema": {
            "required": list(COUNTS),
            "properties": {**dict.fromkeys(COUNTS, NOT_NEGATIVE), "adjusted": INTEGER},
        }
    },
)
STOCK_COLLECTIONS = [
    STOCK,
    Collection(
        "commerce.reservations",
        formerly="reservations",
        indexes=[
            Index([("_id.cart", 1)], why="the reservations of a cart"),
            Index([("_id.sku", 1), ("qty", 1)], why="find_problems() sums the reservations of a SKU"),
            Index([("at", 1)], why="return_orphans(), oldest first"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "commerce.movements",
        formerly="movements",
        indexes=[Index([("sku", 1), ("at", -1), ("_id", -1)], why="movements(), newest first")],
        shard_key={"sku": 1, "_id": 1},  # one product may have any number of them
    ),
]
