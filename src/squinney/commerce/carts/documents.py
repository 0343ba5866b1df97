"""The shapes and collections of stock, carts and payments."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from squinney.commerce.documents import COUNTS, INTEGER, NOT_NEGATIVE
from squinney.mongo.schema import Collection, Index

CartStatus = Literal["active", "pending", "complete", "expiring", "expired"]
PaymentState = Literal["started", "captured", "declined", "cancelled", "refunding", "refunded"]


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
    txns: NotRequired[list[Any]]
    removed_ids: NotRequired[list[str]]


class Movement(TypedDict):
    """One change of a SKU's stock. `qty` is positive for units that came in, negative for units that left."""

    _id: str
    sku: str
    kind: Literal["received", "adjusted", "sold", "restocked"]
    qty: int
    reason: str
    at: datetime


class Line(TypedDict):
    """One line of a cart, with the price at the time when the product was added."""

    sku: str
    qty: int
    price: int
    title: str
    details: dict[str, Any]


class Cart(TypedDict):
    """A cart. `attempt` is the number of its latest checkout, and `key` the idempotency key of that checkout."""

    _id: str
    status: CartStatus
    last_modified: datetime
    items: list[Line]
    currency: str
    customer: NotRequired[str]
    version: int
    attempt: int
    key: NotRequired[str]
    txns: NotRequired[list[Any]]


class Payment(TypedDict):
    """One attempt to charge for a cart. It is open while its state is `started` or `refunding`."""

    _id: str
    cart_id: str
    attempt: int
    amount: int
    currency: str
    items: list[Line]
    state: PaymentState
    at: datetime
    refunding_at: NotRequired[datetime]
    intent: NotRequired[str]
    reason: NotRequired[str]


STOCK = Collection(
    "stock",
    shard_key={"_id": "hashed"},
    validator={
        "$jsonSchema": {
            "required": list(COUNTS),
            "properties": {**dict.fromkeys(COUNTS, NOT_NEGATIVE), "adjusted": INTEGER},
        }
    },
    escrow={"qty": "floor", "carted": "floor", "sold": "floor", "received": "free", "adjusted": "free"},
)
STOCK_COLLECTIONS = [
    STOCK,
    Collection(
        "reservations",
        indexes=[
            Index([("_id.cart", 1)], why="the reservations of a cart"),
            Index([("_id.sku", 1), ("qty", 1)], why="find_problems() sums the reservations of a SKU"),
            Index([("at", 1)], why="return_orphans(), oldest first"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "movements",
        indexes=[Index([("sku", 1), ("at", -1), ("_id", -1)], why="movements(), newest first")],
        shard_key={"sku": "hashed"},
    ),
]

CART_COLLECTIONS = [
    Collection(
        "carts",
        indexes=[Index([("status", 1), ("last_modified", 1), ("_id", 1)], why="expire_carts(), and all() in pages")],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "payments",
        indexes=[
            Index([("state", 1), ("at", 1)], why="settle_payments()"),
            Index([("cart_id", 1), ("attempt", 1)], why="the payment attempts of a cart"),
        ],
        shard_key={"_id": "hashed"},
    ),
]
