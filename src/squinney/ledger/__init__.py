"""System 8: accounts, transfers and statements."""

from squinney.ledger.accounts import Accounts
from squinney.ledger.demo import demo
from squinney.ledger.documents import COLLECTIONS, Account, Entry, NewTransfer, Refused, Transfer, TransferOutcome
from squinney.ledger.errors import (
    AccountClosed,
    AccountNotEmpty,
    BalanceLimit,
    CurrencyMismatch,
    InsufficientFunds,
    UnknownAccount,
)
from squinney.ledger.queries import QUERIES
from squinney.ledger.repair import find_problems, repair

__all__ = [
    "COLLECTIONS",
    "QUERIES",
    "Account",
    "AccountClosed",
    "AccountNotEmpty",
    "Accounts",
    "BalanceLimit",
    "CurrencyMismatch",
    "Entry",
    "InsufficientFunds",
    "NewTransfer",
    "Refused",
    "Transfer",
    "TransferOutcome",
    "UnknownAccount",
    "demo",
    "find_problems",
    "repair",
]
