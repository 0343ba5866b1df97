"""Charges for attempts, and ends every attempt once the provider has reported its outcome.

An attempt is stored before the provider is called, and stays open until its outcome is known. One run applies the
outcome, guarded by the state of the attempt and of what it pays for. If two callers apply it at once, the second finds
it done.
"""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Protocol, cast

from squinney.clock import Clock
from squinney.commerce.documents import WITHOUT_CHECKS
from squinney.commerce.errors import InadequateInventory, PaymentRefunded, PaymentUnsettled, UnknownPayment
from squinney.commerce.payments import queries
from squinney.commerce.payments.documents import Payment
from squinney.commerce.payments.gateway import Charge, PaymentGateway
from squinney.commerce.payments.steps import attempt_of, outcome_of, payment_step
from squinney.errors import SquinneyError
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import Plan, Step, Transactions, WriteRefused

log = logging.getLogger(__name__)

NOT_CHARGED = ("declined", "needs_action", "cancelled", "refunded")
FREE = Charge("captured")  # what costs nothing is paid at once: providers refuse amounts of 0


class Sale(Protocol):
    """What is paid for: carts. Its steps, which include that of the payment, are run together."""

    def selling_steps(self, payment: Payment, outcome: dict[str, Any], *, available: bool) -> list[Step] | None:
        """Return the steps that sell what was paid for; None if that is impossible. `available` goods may be taken."""
        ...

    def reopening_steps(self, payment: Payment, outcome: dict[str, Any]) -> list[Step]:
        """Return the steps that undo the checkout after a payment that took no money."""
        ...


class Refunds(Protocol):
    """What has been sold: orders."""

    def refund(self, payment: Payment, *, payments: PaymentGateway | None = None) -> None:
        """Refund a payment in state `refunding`, and cancel its order."""
        ...

    def record_refund(self, payment: Payment) -> None:
        """Record a refund that the provider has made, and cancel the order."""
        ...


class _AlreadySettled(Exception):
    """Another caller has settled the attempt."""


@operation(reads_only=True)
def find_payment(db: Db, payment_id: str) -> Payment:
    """Return the stored payment attempt.

    Raises: `UnknownPayment`.
    """
    payment = queries.PAYMENT.find_one(db, payment_id=payment_id, projection=WITHOUT_CHECKS)
    if payment is None:
        raise UnknownPayment(f"there is no payment attempt {payment_id}", payment_id=payment_id)
    return cast(Payment, payment)


class Settling:
    """Charges and settles attempts. The time limits of database operations exclude calls to the provider."""

    def __init__(
        self, db: Db, gateway: PaymentGateway, sale: Sale, refunds: Refunds, transactions: Transactions, clock: Clock
    ) -> None:
        self._db = pinned(db)
        self._gateway = gateway
        self._sale = sale
        self._refunds = refunds
        self._transactions = transactions
        self._clock = clock

    # ---- the provider ----

    def charge(self, payment: Payment) -> Payment:
        """Charge for a new attempt, and apply the outcome."""
        if not payment["amount"]:
            return self._apply(payment, FREE)

        def note(intent: str) -> None:
            self._note_intent(payment["_id"], intent)

        try:
            charge = self._gateway.capture(payment["_id"], payment["amount"], payment["currency"], note=note)
        except _AlreadySettled:
            return find_payment(self._db, payment["_id"])
        except Exception as error:
            log.warning("the payment provider failed for attempt %s: %r", payment["_id"], error)
            raise unsettled(payment) from error
        return self._apply(payment, charge)

    @operation()
    def _note_intent(self, payment_id: str, intent: str) -> None:
        """Store the provider's id before money can move; raise if the attempt was settled in the meantime."""
        noted = self._db["commerce.payments"].update_one(
            # guard: an attempt that was settled in the meantime is not charged
            {"_id": payment_id, "state": "started"},
            {"$set": {"intent": intent}},
        )
        if not noted.matched_count:
            raise _AlreadySettled

    # ---- the outcome of an attempt ----

    def settle_stalled(self, stalled_seconds: float) -> Counter[str]:
        """Settle every attempt and refund that has been open for longer than `stalled_seconds`."""
        counts: Counter[str] = Counter()
        before = self._clock() - timedelta(seconds=stalled_seconds)
        for state in ("started", "refunding"):
            for payment_id in self._open_payments(state, before):
                counts[self._try_to_settle(payment_id)] += 1
        return counts

    @operation(60, reads_only=True)
    def _open_payments(self, state: str, before: datetime) -> list[str]:
        payments = queries.OPEN_PAYMENTS.find(self._db, state=state, before=before, projection={"_id": 1}, limit=10_000)
        return [payment["_id"] for payment in payments]

    def _try_to_settle(self, payment_id: str) -> str:
        try:
            return self.settle(payment_id, cancel=True)["state"]
        except SquinneyError as error:  # one attempt without a response must not stop the others
            log.warning("payment attempt %s stays open: %s", payment_id, error)
            return "left for later"

    def settle(self, payment_id: str, *, cancel: bool) -> Payment:
        """Ask the provider for the state of an attempt and apply it; `cancel` first cancels an open charge there."""
        payment = find_payment(self._db, payment_id)
        if payment["state"] == "refunding":
            return self._refund(payment)
        if not payment["amount"]:
            return self._apply(payment, FREE, by_job=cancel)
        attempt = attempt_of(payment)
        try:
            charge = self._gateway.status(attempt)
            # guard: an open charge is cancelled at the provider before the cart reopens
            if charge.state == "open" and cancel:
                charge = self._gateway.cancel(attempt)
        # guard: an attempt stays open if the provider does not respond
        except Exception as error:
            log.warning("the payment provider failed for attempt %s: %r", payment["_id"], error)
            raise unsettled(payment) from error
        return payment if charge.state == "open" else self._apply(payment, charge, by_job=cancel)

    def _apply(self, payment: Payment, charge: Charge, *, by_job: bool = False) -> Payment:
        if charge.state == "captured":
            return self._complete_or_refund(payment, charge, by_job=by_job)
        if charge.state in NOT_CHARGED and payment["state"] == "started":
            self._reopen(payment, charge)
        if charge.state == "refunded" and payment["state"] == "captured":
            self._refunds.record_refund(payment)
        return find_payment(self._db, payment["_id"])

    @operation()
    def _reopen(self, payment: Payment, charge: Charge) -> None:
        """End an attempt that failed or was refunded at the provider."""

        def plan() -> Plan:
            current = find_payment(self._db, payment["_id"])
            is_open = current["state"] == "started"
            return Plan(self._sale.reopening_steps(current, outcome_of(charge)) if is_open else [])

        self._transactions.run("reopen", plan)

    def _complete_or_refund(self, payment: Payment, charge: Charge, *, by_job: bool) -> Payment:
        self._complete(payment, charge, {"recovered_at": self._clock()} if by_job else {})
        payment = find_payment(self._db, payment["_id"])
        return self._refund(payment) if payment["state"] == "refunding" else payment

    @operation()
    def _complete(self, payment: Payment, charge: Charge, recovered: dict[str, Any]) -> None:
        """Sell what a captured payment has paid for, or record that the payment must be refunded."""

        def plan(available: bool) -> Plan:
            current = find_payment(self._db, payment["_id"])
            # guard: a payment is completed once
            if current["state"] in ("captured", "refunding", "refunded"):
                return Plan([])
            outcome = {**outcome_of(charge), **recovered}
            steps = self._sale.selling_steps(current, outcome, available=available)
            return Plan([self._refund_due(current, charge)] if steps is None else steps)

        try:
            self._transactions.run("complete", lambda: plan(available=True))
        # guard: a payment is refunded if the goods are no longer available
        except InadequateInventory:
            self._transactions.run("complete", lambda: plan(available=False))
        # guard: a payment is refunded if a further step is refused
        except (PaymentRefunded, WriteRefused) as refused:
            if "also" not in payment:
                raise
            self._undo(payment, charge, refused.message)

    def _undo(self, payment: Payment, charge: Charge, reason: str) -> None:
        """Record that a captured payment must be refunded, and make its cart active again."""

        def plan() -> Plan:
            current = find_payment(self._db, payment["_id"])
            if current["state"] in ("captured", "refunding", "refunded"):
                return Plan([])
            due = {**outcome_of(charge), "state": "refunding", "refunding_at": self._clock(), "reason": reason[:500]}
            return Plan(self._sale.reopening_steps(current, due))

        self._transactions.run("undo", plan)

    def _refund_due(self, payment: Payment, charge: Charge) -> Step:
        due = {**outcome_of(charge), "state": "refunding", "refunding_at": self._clock()}
        return payment_step(payment, due)

    def _refund(self, payment: Payment) -> Payment:
        # The gateway that took the money returns it: `refunds` may have no gateway.
        # guard: the gateway that charged the payment refunds it
        self._refunds.refund(payment, payments=self._gateway)
        return find_payment(self._db, payment["_id"])


def unsettled(payment: Payment) -> PaymentUnsettled:
    """Return the error for an attempt whose outcome is unknown."""
    message = "the payment provider has not reported the outcome; the payment stays open until it does"
    return PaymentUnsettled(message, outcome_unknown=True, payment_id=payment["_id"])
