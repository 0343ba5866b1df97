"""What a transfer must satisfy, and transfers and openings as guarded steps. Nothing here uses the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from bson.timestamp import Timestamp

from squinney import checks
from squinney.errors import Invalid, SquinneyError
from squinney.ledger.documents import ACCOUNTS, MAX_AMOUNT, MAX_BALANCE, Account, Entry, Transfer
from squinney.ledger.errors import (
    AccountClosed,
    AccountNotEmpty,
    BalanceLimit,
    CurrencyMismatch,
    InsufficientFunds,
    UnknownAccount,
)
from squinney.mongo.schema import Document
from squinney.transactions import Step

FILLED_BY_SERVER = Timestamp(0, 0)


def check_transfer(src: Any, dst: Any, amount: Any, memo: Any, where: str = "") -> None:
    """Check the arguments of a transfer; `where` precedes the names of the fields in the error.

    Raises: `Invalid`.
    """
    checks.identifier(src, f"{where}src")
    checks.identifier(dst, f"{where}dst")
    # guard: an amount is an integer of at least one
    checks.integer(amount, f"{where}amount", minimum=1, maximum=MAX_AMOUNT)
    checks.text(memo, f"{where}memo", max_length=500)
    # guard: source and destination must differ
    if src == dst:
        raise Invalid(f"{where}src and dst must be different accounts", field=f"{where}dst")


def common_currency(src: str, dst: str, currencies: Mapping[str, str]) -> str:
    """Return the currency of both accounts; `currencies` has those of the accounts that exist.

    Raises: `UnknownAccount`, `CurrencyMismatch`.
    """
    for account_id in (src, dst):
        if account_id not in currencies:
            raise UnknownAccount(f"there is no account {account_id}", account_id=account_id)
    # guard: the currencies of both accounts must match
    if currencies[src] != currencies[dst]:
        raise CurrencyMismatch(f"{src} has the currency {currencies[src]}, {dst} has {currencies[dst]}")
    return currencies[src]


def transfer_steps(transfer: Transfer) -> list[Step]:
    """Return the steps of a transfer: take from one account, give to the other, and insert both entries."""
    amount, currency = transfer["amount"], transfer["currency"]
    return [
        Step(
            ACCOUNTS,
            transfer["src"],
            # guard: the source account has the currency of the transfer
            # guard: no transfer from a closed account
            # guard: a transfer requires a sufficient balance
            guard={"balance": {"$gte": amount}, "closed_at": None, "currency": currency},
            update={"$inc": {"balance": -amount}},
            refused=source_refused(transfer["src"]),
        ),
        Step(
            ACCOUNTS,
            transfer["dst"],
            # guard: the destination account has the currency of the transfer
            # guard: no transfer to a closed account
            # guard: a balance cannot exceed the limit
            guard={"balance": {"$lte": MAX_BALANCE - amount}, "closed_at": None, "currency": currency},
            update={"$inc": {"balance": amount}},
            refused=destination_refused(transfer["dst"]),
        ),
        *map(_entry_step, entries_of(transfer)),
    ]


def entries_of(transfer: Transfer) -> list[Document]:
    """Return the two entries of a transfer, as they are inserted."""
    src, dst, amount = transfer["src"], transfer["dst"], transfer["amount"]
    return [
        _stored(_entry(transfer, "out", src, dst, -amount)),
        _stored(_entry(transfer, "in", dst, src, amount)),
    ]


def opening_steps(account: Account) -> list[Step]:
    """Return the steps that insert an account and, if it has an opening balance, the entry for it."""
    inserted = Step("ledger.accounts", account["_id"], insert=account)
    if not account["balance"]:
        return [inserted]
    entry: Entry = {
        "_id": f"{account['_id']}-opening",
        "account_id": account["_id"],
        "transfer_id": None,
        "amount": account["balance"],
        "currency": account["currency"],
        "at": account["opened_at"],
        "memo": "opening balance",
    }
    return [inserted, _entry_step(_stored(entry))]


def closing_step(account_id: str, at: datetime) -> Step:
    """Return the step that closes an empty account."""
    return Step(
        "ledger.accounts",
        account_id,
        # guard: a closed account cannot be closed again
        # guard: only an empty account can be closed
        guard={"balance": 0, "closed_at": None},
        update={"$set": {"closed_at": at}},
        refused=_refused(account_id, AccountNotEmpty, "only an account with a balance of zero can be closed"),
    )


def _stored(entry: Entry) -> Document:
    """Return the entry with its `order`, which the server fills while the transaction holds the account.

    The account was changed before the entry is inserted. So the entries of an account are in the order in which its
    balance changed, whatever the clocks of the workers.
    """
    # guard: the server fills the order of an entry
    return {**entry, "order": FILLED_BY_SERVER}


def _entry_step(entry: Document) -> Step:
    """Return the step that inserts an entry, with the fields that route it to its shard."""
    return Step(
        "ledger.entries", entry["_id"], insert=entry, route={"account_id": entry["account_id"], "at": entry["at"]}
    )


def _entry(transfer: Transfer, side: str, account_id: str, other_id: str, amount: int) -> Entry:
    entry: Entry = {
        "_id": f"{transfer['_id']}-{side}",
        "account_id": account_id,
        "transfer_id": transfer["_id"],
        "other_id": other_id,
        "amount": amount,
        "currency": transfer["currency"],
        "at": transfer["at"],
        "memo": transfer["memo"],
    }
    if "about" in transfer:
        entry["about"] = transfer["about"]
    return entry


def source_refused(account_id: str) -> Callable[[Document | None], SquinneyError]:
    """Return a function that returns why money cannot be taken from an account."""
    return _refused(account_id, InsufficientFunds, "the balance of the account is too low")


def destination_refused(account_id: str) -> Callable[[Document | None], SquinneyError]:
    """Return a function that returns why an account cannot receive money."""
    return _refused(account_id, BalanceLimit, f"the balance of an account must not exceed {MAX_BALANCE}")


def _refused(
    account_id: str, otherwise: type[SquinneyError], message: str
) -> Callable[[Document | None], SquinneyError]:
    def error_for(account: Document | None) -> SquinneyError:
        if account is None:
            return UnknownAccount(f"there is no account {account_id}", account_id=account_id)
        if account.get("closed_at"):
            return AccountClosed(f"account {account_id} is closed", account_id=account_id)
        return otherwise(message, account_id=account_id)

    return error_for
