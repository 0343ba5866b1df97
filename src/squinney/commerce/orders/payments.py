"""What commerce asks of a payment provider, and a provider for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db

ChargeState = Literal["open", "captured", "declined", "cancelled", "refunded"]


@dataclass(frozen=True)
class Attempt:
    """One attempt to charge, as we know it. `intent` is the provider's own id, once it was noted."""

    key: str
    amount: int
    currency: str
    intent: str | None = None


@dataclass(frozen=True)
class Charge:
    """How an attempt stands at the provider. `open` is neither charged nor out of the question."""

    state: ChargeState
    intent: str | None = None
    reason: str = ""


class PaymentGateway(Protocol):
    """A payment provider. Anything raised means that the outcome is unknown.

    Every call may be repeated: a key is charged at most once and refunded at most once, whoever asks how often.
    """

    def capture(self, key: str, amount: int, currency: str, *, note: Callable[[str], None]) -> Charge:
        """Charge. `note` must get the provider's id before money can move; where it raises, nothing may be charged."""
        ...

    def status(self, attempt: Attempt) -> Charge:
        """How the attempt stands."""
        ...

    def cancel(self, attempt: Attempt) -> Charge:
        """Make a capture impossible from now on, and say how it stands: `captured` where it was too late.

        This holds also for an attempt that the provider has not heard of yet.
        """
        ...

    def refund(self, attempt: Attempt) -> Charge:
        """Give the money back."""
        ...


Behaviour = Literal["capture", "decline", "timeout", "capture-then-timeout"]


class ProviderTimeout(Exception):
    """The provider did not answer."""


class TestGateway:
    """A provider that can be told to decline, to time out, or to capture and then not answer.

    It keeps its charges in the database, as a provider keeps its own: they outlive the process that asked.
    """

    __test__ = False  # not for pytest to collect

    def __init__(self, db: Db, behaviour: Behaviour = "capture") -> None:
        self.behaviour: Behaviour = behaviour
        self._charges = pinned(db)["test_charges"]

    def capture(self, key: str, amount: int, currency: str, *, note: Callable[[str], None]) -> Charge:
        """Charge, or not, as told.

        Atomic: the first state that a key gets stays; only a refund follows a capture.
        """
        note(f"test-{key}")
        behaviour = self.behaviour
        if behaviour == "timeout":
            raise ProviderTimeout("no answer")
        charge = self._settle(key, "declined" if behaviour == "decline" else "captured", amount=amount)
        if behaviour == "capture-then-timeout":
            raise ProviderTimeout("no answer, though it was charged")
        return charge

    def status(self, attempt: Attempt) -> Charge:
        """How the attempt stands."""
        found = self._charges.find_one({"_id": attempt.key})
        return _charge(found) if found else Charge("open")

    def cancel(self, attempt: Attempt) -> Charge:
        """Keep a later capture out."""
        return self._settle(attempt.key, "cancelled", amount=attempt.amount)

    def refund(self, attempt: Attempt) -> Charge:
        """Give the money back, once."""
        self._charges.update_one({"_id": attempt.key, "state": "captured"}, {"$set": {"state": "refunded"}})
        return self.status(attempt)

    def _settle(self, key: str, state: ChargeState, *, amount: int) -> Charge:
        """The state that the key got first. Of two upserts by `_id` alone that meet, the server repeats one itself."""
        first = {"$setOnInsert": {"state": state, "amount": amount}}
        found = self._charges.find_one_and_update({"_id": key}, first, upsert=True, return_document=True)
        return _charge(cast(Mapping[str, Any], found))


def _charge(stored: Mapping[str, Any]) -> Charge:
    reason = "the test gateway was told to decline" if stored["state"] == "declined" else ""
    return Charge(stored["state"], f"test-{stored['_id']}", reason)
