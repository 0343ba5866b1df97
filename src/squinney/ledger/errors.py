"""The errors of the ledger."""

from squinney.errors import Conflict, LimitReached, NotFound


class UnknownAccount(NotFound):
    """The account does not exist."""


class AccountClosed(Conflict):
    """The account is closed."""


class AccountNotEmpty(Conflict):
    """The balance of the account is not zero."""


class CurrencyMismatch(Conflict):
    """The accounts have different currencies."""


class InsufficientFunds(Conflict):
    """The balance of the account is too low."""


class BalanceLimit(LimitReached):
    """The balance of the account would exceed the limit."""
