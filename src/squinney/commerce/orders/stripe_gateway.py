"""Stripe as the payment provider: the extra `squinney[stripe]`.

An attempt is one PaymentIntent, made with the attempt's key as idempotency key and confirmed in a second call. Making
it charges nothing. So whoever has to settle an attempt whose answer was lost makes it again with the same key and gets
the same intent, or a fresh one that nobody will ever confirm, and can cancel it either way: a capture that comes late
then fails. The intent's id is noted before the confirmation. Where Stripe has forgotten the key (after a day or more)
and no id was noted, nothing was confirmed and nothing can be: `note` refuses an attempt that was settled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import stripe

from squinney.commerce.orders.payments import Attempt, Charge, ChargeState
from squinney.patterns.money import decimals

# The statuses of a PaymentIntent that end an attempt. All others leave it open, also that of a card that was refused.
STATES: dict[str, ChargeState] = {"succeeded": "captured", "canceled": "cancelled"}
# Where Stripe counts in other units than ISO 4217, and so than we do: https://docs.stripe.com/currencies
DECIMALS = {"ISK": 2, "UGX": 2, "MGA": 0}


class _NeverMade(Exception):
    """Stripe does not take such a payment, say of too small an amount: there is no intent that could be confirmed."""


class StripeGateway:
    """Charges by Stripe. `payment_method` says which of the customer's methods to charge, given the attempt's key."""

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
        """Make the intent, note its id, confirm it."""
        try:
            intent = self._make(key, amount, currency)
        except _NeverMade as refused:
            return Charge("declined", reason=str(refused))
        note(intent.id)
        params: Any = {"payment_method": self._payment_method(key)}
        try:
            options: Any = {"idempotency_key": f"{key}:confirm"}
            confirmed = self._stripe.v1.payment_intents.confirm(intent.id, params, options)
        except stripe.CardError as error:
            # Out of the question from now on: without this the refused intent could still be confirmed again.
            charge = self.cancel(Attempt(key, amount, currency, intent.id))
            reason = str(error.user_message or "the card was declined")
            return Charge("declined", intent.id, reason) if charge.state == "cancelled" else charge
        except stripe.InvalidRequestError:  # cancelled meanwhile, or confirmed already
            return self.status(Attempt(key, amount, currency, intent.id))
        return _charge(confirmed)

    def status(self, attempt: Attempt) -> Charge:
        """How the intent stands."""
        try:
            intent_id = self._intent_id(attempt)
        except _NeverMade as refused:
            return Charge("declined", reason=str(refused))
        return self._retrieved(intent_id)

    def _retrieved(self, intent_id: str) -> Charge:
        """How the intent stands, with its charge: an intent has succeeded also when its money went back since."""
        params: Any = {"expand": ["latest_charge"]}
        return _charge(self._stripe.v1.payment_intents.retrieve(intent_id, params))

    def cancel(self, attempt: Attempt) -> Charge:
        """Cancel the intent, made anew where none was noted."""
        try:
            intent_id = self._intent_id(attempt)
        except _NeverMade as refused:
            return Charge("declined", reason=str(refused))
        try:
            return _charge(self._stripe.v1.payment_intents.cancel(intent_id))
        except stripe.InvalidRequestError:  # it has come to an end already
            return self._retrieved(intent_id)

    def refund(self, attempt: Attempt) -> Charge:
        """Refund in full, once: the key makes a repeat harmless."""
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
        return attempt.intent or self._make(attempt.key, attempt.amount, attempt.currency).id

    def _make(self, key: str, amount: int, currency: str) -> Any:
        params: Any = {
            "amount": stripes_amount(amount, currency),
            "currency": currency.lower(),
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            "metadata": {"attempt": key},
        }
        options: Any = {"idempotency_key": f"{key}:make"}
        try:
            return self._stripe.v1.payment_intents.create(params, options)
        except stripe.InvalidRequestError as error:
            raise _NeverMade(error.user_message or "Stripe refused the payment") from error


def stripes_amount(amount: int, currency: str) -> int:
    """An amount of our minor units in those of Stripe: 500 krónur, which have no smaller coin, are 50000.

    Raises: `_NeverMade` where Stripe has no coin that small.
    """
    more = DECIMALS.get(currency, decimals(currency)) - decimals(currency)
    if more >= 0:
        return amount * int(10**more)
    if amount % 10**-more:
        raise _NeverMade(f"Stripe takes whole {currency} only")
    return amount // int(10**-more)


def _charge(intent: Any) -> Charge:
    """`refunded` says that all of a charge went back; where only a part did, the rest is still captured."""
    state = STATES.get(intent.status, "open")
    if state == "captured" and getattr(getattr(intent, "latest_charge", None), "refunded", False):
        state = "refunded"
    return Charge(state, intent.id)
