"""Stripe as the payment provider, in test mode only: the extra `squinney[stripe]`.

The shop has no page that asks a buyer for a card, so this adapter charges a test card, and takes only test keys.

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

from squinney.commerce.payments.gateway import Attempt, Charge, ChargeState
from squinney.errors import Invalid
from squinney.patterns.money import decimals

# The final statuses of a PaymentIntent. With any other status, also that of a declined card, the attempt is open.
STATES: dict[str, ChargeState] = {"succeeded": "captured", "canceled": "cancelled"}
TEST_KEYS = ("sk_test_", "rk_test_")  # a list of what is allowed: a new kind of live key must not pass
ACTION_NEEDED = "the bank wants the buyer to confirm the payment, which this shop cannot ask for: use another card"
UNFINISHED = {"pending", "requires_action"}  # the statuses of a refund that can still fail
FAILED = {"failed", "canceled"}
# Currencies whose minor units at Stripe differ from ISO 4217, which we use: https://docs.stripe.com/currencies
DECIMALS = {"ISK": 2, "UGX": 2, "MGA": 0}


class _NotCreated(Exception):
    """Stripe refused to create the intent, for example because the amount is too small; nothing can be confirmed."""


def check_test_key(api_key: str) -> None:
    """Refuse every key that is not a Stripe test key.

    Raises: `Invalid`; its message never contains the key.
    """
    # guard: only test keys of Stripe are taken
    if not api_key.startswith(TEST_KEYS):
        raise Invalid(
            "SQUINNEY_STRIPE_KEY must be a Stripe test key (sk_test_... or rk_test_...), because the shop does not ask "
            "buyers for their cards yet and would charge a test card",
            field="SQUINNEY_STRIPE_KEY",
        )


class StripeGateway:
    """Charges with Stripe in test mode. `payment_method` returns the payment method to charge for an attempt's key.

    Raises: `Invalid` for a key that is not a test key.
    """

    def __init__(
        self,
        api_key: str,
        *,
        payment_method: Callable[[str], str] = lambda key: "pm_card_visa",
        base_url: str | None = None,
        timeout_seconds: float = 20,
    ) -> None:
        check_test_key(api_key)
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
            return self._end(intent.id, "declined", str(error.user_message or "the card was declined"))
        except stripe.InvalidRequestError:  # the intent was cancelled in the meantime, or is confirmed already
            return self._retrieve(intent.id)
        if confirmed.status == "requires_action":
            return self._end(intent.id, "needs_action", ACTION_NEEDED)
        return _charge(confirmed)

    def _end(self, intent_id: str, state: ChargeState, reason: str) -> Charge:
        """Cancel an intent that was not charged, because it could still be confirmed; return its outcome."""
        charge = self._cancel(intent_id)
        return Charge(state, intent_id, reason) if charge.state == "cancelled" else charge

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
        # A refunded intent still has the status `succeeded`; only its charge and the charge's refunds show the refund.
        params: Any = {"expand": ["latest_charge.refunds"]}
        return _charge(self._stripe.v1.payment_intents.retrieve(intent_id, params))

    def _cancel(self, intent_id: str) -> Charge:
        try:
            return _charge(self._stripe.v1.payment_intents.cancel(intent_id))
        except stripe.InvalidRequestError:  # the intent is already captured or cancelled
            return self._retrieve(intent_id)

    def refund(self, attempt: Attempt) -> Charge:
        """Refund the whole amount; the idempotency key makes repeats harmless.

        The state stays `captured` while Stripe's refund is pending, and if it failed; `reason` says which.
        """
        intent_id = self._intent_id(attempt)
        params: Any = {"payment_intent": intent_id}
        options: Any = {"idempotency_key": f"{attempt.key}:refund"}
        try:
            refund = self._stripe.v1.refunds.create(params, options)
        except stripe.InvalidRequestError as error:
            if error.code != "charge_already_refunded":
                raise
            return self._retrieve(intent_id)
        # A repeat gets the status that the refund had at first, so the current one is read.
        return Charge("refunded", intent_id) if refund.status == "succeeded" else self._retrieve(intent_id)

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
    charge = getattr(intent, "latest_charge", None)
    if state != "captured" or charge is None or isinstance(charge, str):
        return Charge(state, intent.id)
    refunds = {refund.status for refund in charge.refunds.data}
    # `refunded` is true only for a full refund; after a partial refund the payment is still captured.
    # guard: a pending refund at Stripe is not done
    if charge.refunded and not refunds & UNFINISHED:
        return Charge("refunded", intent.id)
    return Charge(state, intent.id, _why_not_refunded(refunds))


def _why_not_refunded(refunds: set[str]) -> str:
    if refunds & UNFINISHED:
        return "the refund is pending at Stripe"
    return "the refund failed at Stripe" if refunds & FAILED else ""
