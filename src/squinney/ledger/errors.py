"""What the ledger refuses."""

from squinney.errors import Conflict, LimitReached, NotFound


class UnknownAccount(NotFound):
    """There is no such account."""

    code = "unknown-account"


class AccountClosed(Conflict):
    """The account is closed."""

    code = "account-closed"


class AccountNotEmpty(Conflict):
    """The account still holds money, or money is on its way."""

    code = "account-not-empty"


class CurrencyMismatch(Conflict):
    """The accounts differ in currency."""

    code = "currency-mismatch"


class InsufficientFunds(Conflict):
    """The account does not hold that much."""

    code = "insufficient-funds"


class BalanceLimit(LimitReached):
    """The account would hold more than an account may."""

    code = "balance-limit"
