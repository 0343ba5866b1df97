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


BY_STATUS = Index([("status", 1), ("last_modified", 1), ("_id", 1)], why="expire_carts(), and all() in pages")

CART_COLLECTIONS = [
    Collection(
        "commerce.carts",
        formerly="carts",
        former_indexes=[BY_STATUS],
        indexes=[
            BY_STATUS,
            # By `created_at`, so that a change of a line leaves the entry as it is; a guest's cart has none.
            Index(
                [("customer", 1), ("status", 1), ("created_at", -1)],
                partial={"customer": {"$exists": True}},
                why="open_of()",
            ),
        ],
        shard_key={"_id": "hashed"},
    ),
]
