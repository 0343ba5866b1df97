"""What the ledger refuses."""

from squinney.errors import Conflict, LimitReached, NotFound


class UnknownAccount(NotFound):
    """There is no such account."""


class AccountClosed(Conflict):
    """The account is closed."""


class AccountNotEmpty(Conflict):
    """The account still holds money."""


class CurrencyMismatch(Conflict):
    """The accounts differ in currency."""


class InsufficientFunds(Conflict):
    """The account does not hold that much."""


class BalanceLimit(LimitReached):
    """The account would hold more than an account may."""
