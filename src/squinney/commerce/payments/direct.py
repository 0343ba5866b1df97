"""Payments without a provider: steps of the caller move the money in the run that makes or cancels the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from squinney.commerce.payments.documents import Payment
from squinney.transactions import Step


@dataclass(frozen=True)
class Moved:
    """How the money of a payment moves: by which `steps`, on which `account` of the customer, and in which `transfer`.

    `account` and `transfer` are references of the caller's; the shop stores them with the payment.
    """

    steps: Sequence[Step]
    account: str
    transfer: str


Move = Callable[[Payment], Moved]
