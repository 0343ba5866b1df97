"""A payment provider for tests, whose charges are stored in the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from squinney.commerce.payments.gateway import Attempt, Charge, ChargeState
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Collection, Db

TEST_CHARGES = Collection("commerce.test_charges", formerly="test_charges", shard_key={"_id": "hashed"})
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
        self._charges = pinned(db)["commerce.test_charges"]

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
        charge = self._charges.find_one({"_id": attempt.key})
        return _charge(charge) if charge else Charge("open")

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
        charge = self._charges.find_one_and_update({"_id": key}, first, upsert=True, return_document=True)
        return _charge(cast(Mapping[str, Any], charge))


def _charge(stored: Mapping[str, Any]) -> Charge:
    reason = "the test gateway is set to decline" if stored["state"] == "declined" else ""
    return Charge(stored["state"], f"test-{stored['_id']}", reason)
