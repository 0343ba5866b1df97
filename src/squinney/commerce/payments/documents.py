"""The shape and the collection of payment attempts."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NotRequired, TypedDict

from squinney.commerce.documents import Line
from squinney.mongo.schema import Collection, Index

PaymentState = Literal["started", "captured", "declined", "needs_action", "cancelled", "refunding", "refunded"]


class Buyer(TypedDict):
    """To whom the order of a payment will belong; a guest has no id."""

    customer: NotRequired[str]


class Payment(Buyer):
    """One attempt to charge for a cart. It is open while its state is `started` or `refunding`.

    One that was paid without a provider has `paid_from` and `transfers`: those of the payment and of its refund. One
    that a job completed, because the checkout was interrupted, has `recovered_at`.
    """

    _id: str
    cart_id: str
    attempt: int
    amount: int
    currency: str
    items: list[Line]
    state: PaymentState
    at: datetime
    reserved_at: NotRequired[datetime]
    recovered_at: NotRequired[datetime]
    refunding_at: NotRequired[datetime]
    refunded_at: NotRequired[datetime]
    paid_from: NotRequired[str]
    transfers: NotRequired[list[str]]
    intent: NotRequired[str]
    reason: NotRequired[str]
    also: NotRequired[bytes]


PAYMENTS = Collection(
    "commerce.payments",
    formerly="payments",
    indexes=[
        Index([("state", 1), ("at", 1)], why="settle_payments()"),
        Index([("cart_id", 1), ("attempt", 1)], why="the payment attempts of a cart"),
    ],
    shard_key={"_id": "hashed"},
)
