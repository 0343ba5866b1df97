"""The shapes and collections of orders."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NotRequired, TypedDict

from squinney.commerce.documents import NOT_NEGATIVE
from squinney.mongo.schema import Collection, Index


class OrderLine(TypedDict):
    """One line of an order."""

    sku: str
    title: str
    price: int
    qty: int


class Order(TypedDict):
    """An order. An order of a cart has the cart's id and a `payment_id`."""

    _id: str
    customer: NotRequired[str]
    items: list[OrderLine]
    total: int
    currency: str
    status: Literal["placed", "cancelling", "cancelled"]
    placed_at: datetime
    version: int
    payment_id: NotRequired[str]


ORDER_COLLECTIONS = [
    Collection(
        "commerce.orders",
        formerly="orders",
        indexes=[
            Index([("customer", 1), ("placed_at", -1), ("_id", -1)], why="by_customer(), newest first"),
            Index([("placed_at", -1), ("_id", -1)], why="all(), newest first"),
        ],
        shard_key={"_id": "hashed"},
        validator={"$jsonSchema": {"required": ["items", "total", "status"], "properties": {"total": NOT_NEGATIVE}}},
    ),
]
