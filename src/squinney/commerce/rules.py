"""What carts, payments and orders decide in the same way. Nothing here uses the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from squinney.errors import SquinneyError
from squinney.mongo.schema import Document
from squinney.transactions import Stale, Step

Refusal = Callable[[Document | None], SquinneyError]


def total(lines: Sequence[Mapping[str, Any]]) -> int:
    """Return the sum of price times quantity over the lines."""
    return sum(line["price"] * line["qty"] for line in lines)


def stale(message: str) -> Refusal:
    """Return the `refused` callable that makes a run plan again; the new plan may find its change applied already."""
    return lambda _: Stale(message)


def status_step(
    collection: Literal["commerce.carts", "commerce.orders"], current: Mapping[str, Any], change: Mapping[str, Any]
) -> Step:
    """Return the step that changes a cart or order if its status and version are still those that were read."""
    # guard: a cart changes only if it still has the version that was read
    guard = {"status": current["status"], "version": current["version"]}
    update = {"$set": dict(change), "$inc": {"version": 1}}
    return Step(collection, current["_id"], guard=guard, update=update, refused=stale("the cart or order has changed"))
