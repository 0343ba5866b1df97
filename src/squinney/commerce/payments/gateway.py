"""The interface to payment providers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

ChargeState = Literal["open", "captured", "declined", "needs_action", "cancelled", "refunded"]


@dataclass(frozen=True)
class Attempt:
    """One attempt to charge. `intent` is the provider's id for the attempt, once it is known."""

    key: str
    amount: int
    currency: str
    intent: str | None = None


@dataclass(frozen=True)
class Charge:
    """The state of an attempt at the provider. `open` means not charged, but a charge is still possible.

    `needs_action` means that the buyer would have to confirm the payment, and that the attempt was ended instead.
    """

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
        """Refund the whole amount; return the state, which is `refunded` only once the refund cannot fail any more."""
        ...
