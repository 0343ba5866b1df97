"""The shape and the collection of carts."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NotRequired, TypedDict

from squinney.commerce.documents import Line
from squinney.mongo.schema import Collection, Index

CartStatus = Literal["active", "pending", "complete", "expiring", "expired"]


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
    created_at: NotRequired[datetime]


CART_COLLECTIONS = [
    Collection(
        "commerce.carts",
        formerly="carts",
        indexes=[Index([("status", 1), ("last_modified", 1), ("_id", 1)], why="expire_carts(), and all() in pages")],
        shard_key={"_id": "hashed"},
    ),
]
