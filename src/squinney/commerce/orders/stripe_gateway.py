"""Stripe as the payment provider: the extra `squinney[stripe]`.

An attempt is one PaymentIntent, created with the attempt's key as idempotency key and confirmed in a second call.
Creating the intent charges nothing, and its id is noted before the confirmation.

To settle an attempt whose response was lost, the gateway creates the intent again with the same key. It gets the same
intent, or a new one that nobody will confirm, and cancels it; a late capture then fails. If Stripe has forgotten the
key (after a day or more) and no id was noted, no intent was confirmed. None can be confirmed later either, because
`note` raises for an attempt that is settled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import stripe

from squinney.commerce.orders.payments import Attempt, Charge, ChargeState
from squinney.patterns.money import decimals

# The final statuses of a PaymentIntent. With any other status, also that of a declined card, the attempt is open.
STATES: dict[str, ChargeState] = {"succeeded": "captured", "canceled": "cancelled"}
# Currencies whose minor units at Stripe differ from ISO 4217, which we use: https://docs.stripe.com/currencies
DECIMALS = {"ISK": 2, "UGX": 2, "MGA": 0}


class _NotCreated(Exception):
    """Stripe refused to create the intent, for example because the amount is too small; nothing can be confirmed."""


class StripeGateway:
    """Charges with Stripe. `payment_method` returns the payment method to charge for an attempt's key."""

    def __init__(
        self,
        api_key: str,
        *,
        payment_method: Callable[[str], str] = lambda key: "pm_card_visa",
        base_url: str | None = None,
        timeout_seconds: float = 20,
    ) -> None:
        addresses: Any = {"api": base_url} if base_url else {}
        client = stripe.RequestsClient(timeout=timeout_seconds)
        self._stripe = stripe.StripeClient(api_key, base_addresses=addresses, http_client=client, max_network_retries=1)
        self._payment_method = payment_method

    def capture(self, key: str, amount: int, currency: str, *, note: Callable[[str], None]) -> Charge:
        """Create the intent, note its id, and confirm it."""
        try:
            intent = self._create(key, amount, currency)
        except _NotCreated as refused:
            return Charge("declined", reason=str(refused))
        note(intent.id)
        params: Any = {"payment_method": self._payment_method(key)}
        try:
            options: Any = {"idempotency_key": f"{key}:confirm"}
            confirmed = self._stripe.v1.payment_intents.confirm(intent.id, params, options)
        except stripe.CardError as error:
            # Cancel the declined intent, because it could still be confirmed again.
            charge = self._cancel(intent.id)
            reason = str(error.user_message or "the card was declined")
            return Charge("declined", intent.id, reason) if charge.state == "cancelled" else charge
        except stripe.InvalidRequestError:  # the intent was cancelled in the meantime, or is confirmed already
            return self._retrieve(intent.id)
        return _charge(confirmed)

    def status(self, attempt: Attempt) -> Charge:
        """Return the state of the intent."""
        return self._ask(attempt, self._retrieve)

    def cancel(self, attempt: Attempt) -> Charge:
        """Cancel the intent; create it first if no id was noted."""
        return self._ask(attempt, self._cancel)

    def _ask(self, attempt: Attempt, question: Callable[[str], Charge]) -> Charge:
        try:
            return question(self._intent_id(attempt))
        except _NotCreated as refused:
            return Charge("declined", reason=str(refused))

    def _retrieve(self, intent_id: str) -> Charge:
        # A refunded intent still has the status `succeeded`; only its charge shows the refund.
        params: Any = {"expand": ["latest_charge"]}
        return _charge(self._stripe.v1.payment_intents.retrieve(intent_id, params))

    def _cancel(self, intent_id: str) -> Charge:
        try:
            return _charge(self._stripe.v1.payment_intents.cancel(intent_id))
        except stripe.InvalidRequestError:  # the intent is already captured or cancelled
            return self._retrieve(intent_id)

    def refund(self, attempt: Attempt) -> Charge:
        """Refund the whole amount; the idempotency key makes repeats harmless."""
        intent_id = self._intent_id(attempt)
        params: Any = {"payment_intent": intent_id}
        options: Any = {"idempotency_key": f"{attempt.key}:refund"}
        try:
            refund = self._stripe.v1.refunds.create(params, options)
        except stripe.InvalidRequestError as error:
            if error.code != "charge_already_refunded":
                raise
            return Charge("refunded", intent_id)
        return Charge("refunded" if refund.status in ("succeeded", "pending") else "captured", intent_id)

    def _intent_id(self, attempt: Attempt) -> str:
        return attempt.intent or self._create(attempt.key, attempt.amount, attempt.currency).id

    def _create(self, key: str, amount: int, currency: str) -> Any:
        params: Any = {
            "amount": _amount_at_stripe(amount, currency),
            "currency": currency.lower(),
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            "metadata": {"attempt": key},
        }
        options: Any = {"idempotency_key": f"{key}:make"}
        try:
            return self._stripe.v1.payment_intents.create(params, options)
        except stripe.InvalidRequestError as error:
            raise _NotCreated(error.user_message or "Stripe refused the payment") from error


def _amount_at_stripe(amount: int, currency: str) -> int:
    """Convert our minor units to Stripe's: 500 krónur, which have no minor unit, are 50000 at Stripe.

    Raises: `_NotCreated` if the amount is not a whole number of Stripe's units.
    """
    more_digits = DECIMALS.get(currency, decimals(currency)) - decimals(currency)
    if more_digits >= 0:
        return amount * int(10**more_digits)
    if amount % 10**-more_digits:
        raise _NotCreated(f"Stripe charges only whole amounts of {currency}")
    return amount // int(10**-more_digits)


def _charge(intent: Any) -> Charge:
    state = STATES.get(intent.status, "open")
    # `refunded` is true only for a full refund; after a partial refund the payment is still captured.
    if state == "captured" and getattr(getattr(intent, "latest_charge", None), "refunded", False):
        state = "refunded"
    return Charge(state, intent.id)
