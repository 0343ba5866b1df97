"""Pure decisions about payment attempts, and the transaction step that changes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squinney.commerce.payments.documents import Payment
from squinney.commerce.payments.gateway import Attempt, Charge
from squinney.commerce.rules import stale
from squinney.transactions import Step


def payment_step(payment: Payment, change: Mapping[str, Any]) -> Step:
    """Return the step that changes the payment attempt if its state is still the one that was read."""
    return Step(
        "commerce.payments",
        payment["_id"],
        guard={"state": payment["state"]},
        update={"$set": dict(change)},
        refused=stale("the payment attempt has changed"),
    )


def attempt_of(payment: Payment) -> Attempt:
    """Return the payment attempt in the form that providers take."""
    return Attempt(payment["_id"], payment["amount"], payment["currency"], payment.get("intent"))


def outcome_of(charge: Charge) -> dict[str, Any]:
    """Return the fields of a payment attempt that record what the provider has reported."""
    outcome: dict[str, Any] = {"state": charge.state}
    if charge.intent:
        outcome["intent"] = charge.intent
    if charge.reason:
        outcome["reason"] = charge.reason[:500]
    return outcome
