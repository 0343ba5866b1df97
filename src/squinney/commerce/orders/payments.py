"""Stored payment attempts, the interface to payment providers, and a provider for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from squinney.commerce.carts import queries
from squinney.commerce.carts.documents import Payment
from squinney.commerce.errors import UnknownPayment
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db

ChargeState = Literal["open", "captured", "declined", "cancelled", "refunded"]


@dataclass(frozen=True)
class Attempt:
    """One attempt to charge. `intent` is the provider's id for the attempt, once it is known."""

    key: str
    amount: int
    currency: str
    intent: str | None = None


@dataclass(frozen=True)
class Charge:
    """The state of an attempt at the provider. `open` means not charged, but a charge is still possible."""

    state: ChargeState
    intent: str | None = None
    reason: str = ""


class PaymentGateway(Protocol):
    """A payment provider. Any exception means that the outcome is unknown.

    Every call may be repeated: a key is charged at most once and refunded at most once, however often it is called.
    """

    def capture(self, key: str, amount: int, currency: str, *, note: Callable[[str], None]) -> Charge:
        """Charge. Call `note` with the provider's id before money can move; if `note` raises, charge nothing."""
        ...

    def status(self, attempt: Attempt) -> Charge:
        """Return the state of the attempt."""
        ...

    def cancel(self, attempt: Attempt) -> Charge:
        """Make a capture impossible from now on; return the state, which is `captured` if this came too late.

        This also holds for an attempt that the provider does not know yet.
        """
        ...

    def refund(self, attempt: Attempt) -> Charge:
        """Refund the whole amount."""
        ...


@operation(reads_only=True)
def find_payment(db: Db, payment_id: str) -> Payment:
    """Return the stored payment attempt.

    Raises: `UnknownPayment`.
    """
    payment = db["payments"].find_one(queries.PAYMENT(payment_id=payment_id))
    if payment is None:
        raise UnknownPayment(f"there is no payment attempt {payment_id}", payment_id=payment_id)
    return cast(Payment, payment)


Behaviour = Literal["capture", "decline", "timeout", "capture-then-timeout"]


class ProviderTimeout(Exception):
    """The provider did not respond."""


class TestGateway:
    """A provider for tests. `behaviour` makes it capture, decline, time out, or capture and then time out.

    Its charges are stored in the database, so that they survive the process, like those of a real provider.
    """

    __test__ = False  # not for pytest to collect

    def __init__(self, db: Db, behaviour: Behaviour = "capture") -> None:
        self.behaviour: Behaviour = behaviour
        self._charges = pinned(db)["test_charges"]

    def capture(self, key: str, amount: int, currency: str, *, note: Callable[[str], None]) -> Charge:
        """Charge, or fail, as `behaviour` says. The first state of a key is final, except that it can be refunded."""
        note(f"test-{key}")
        behaviour = self.behaviour
        if behaviour == "timeout":
            raise ProviderTimeout("no response")
        charge = self._settle(key, "declined" if behaviour == "decline" else "captured", amount=amount)
        if behaviour == "capture-then-timeout":
            raise ProviderTimeout("charged, but no response")
        return charge

    def status(self, attempt: Attempt) -> Charge:
        """Return the state of the attempt."""
        found = self._charges.find_one({"_id": attempt.key})
        return _charge(found) if found else Charge("open")

    def cancel(self, attempt: Attempt) -> Charge:
        """Make a later capture impossible."""
        return self._settle(attempt.key, "cancelled", amount=attempt.amount)

    def refund(self, attempt: Attempt) -> Charge:
        """Refund the charge, once."""
        self._charges.update_one({"_id": attempt.key, "state": "captured"}, {"$set": {"state": "refunded"}})
        return self.status(attempt)

    def _settle(self, key: str, state: ChargeState, *, amount: int) -> Charge:
        """Return the first state that the key got. If two upserts by `_id` collide, the server retries one itself."""
        first = {"$setOnInsert": {"state": state, "amount": amount}}
        found = self._charges.find_one_and_update({"_id": key}, first, upsert=True, return_document=True)
        return _charge(cast(Mapping[str, Any], found))


def _charge(stored: Mapping[str, Any]) -> Charge:
    reason = "the test gateway is set to decline" if stored["state"] == "declined" else ""
    return Charge(stored["state"], f"test-{stored['_id']}", reason)
