"""Transfers and openings as guarded steps. Nothing here uses the database."""

from __future__ import annotations

from collections.abc import Callable

from squinney.errors import SquinneyError
from squinney.ledger.documents import ACCOUNTS, MOST_BALANCE, Account, Entry, Transfer
from squinney.ledger.errors import AccountClosed, BalanceLimit, InsufficientFunds, UnknownAccount
from squinney.mongo.schema import Document
from squinney.transactions import Step


def transfer_steps(transfer: Transfer) -> list[Step]:
    """Return the steps of a transfer: take from one account, give to the other, and insert both entries."""
    amount, currency = transfer["amount"], transfer["currency"]
    return [
        Step(
            ACCOUNTS,
            transfer["src"],
            guard={"balance": {"$gte": amount}, "closed_at": None, "currency": currency},
            take={"$inc": {"balance": -amount}},
            shared=True,
            refused=_refused(transfer["src"], InsufficientFunds, "the balance of the account is too low"),
        ),
        Step(
            ACCOUNTS,
            transfer["dst"],
            guard={"balance": {"$lte": MOST_BALANCE - amount}, "closed_at": None, "currency": currency},
            give={"$inc": {"balance": amount}},
            shared=True,
            # int64 has room above the limit, so concurrent payments into one account do not wait for each other.
            may_overshoot=True,
            refused=_refused(
                transfer["dst"], BalanceLimit, f"the balance of an account must not exceed {MOST_BALANCE}"
            ),
        ),
        entry_step(_entry(transfer, "out", transfer["src"], transfer["dst"], -amount)),
        entry_step(_entry(transfer, "in", transfer["dst"], transfer["src"], amount)),
    ]


def opening_steps(account: Account) -> list[Step]:
    """Return the steps that insert an account and, if it has an opening balance, the entry for it."""
    inserted = Step("accounts", account["_id"], insert=account)
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
    return [inserted, entry_step(entry)]


def entry_step(entry: Entry) -> Step:
    """Return the step that inserts an entry, with the fields that route it to its shard."""
    return Step("entries", entry["_id"], insert=entry, route={"account_id": entry["account_id"], "at": entry["at"]})


def _entry(transfer: Transfer, side: str, account_id: str, other_id: str, amount: int) -> Entry:
    return {
        "_id": f"{transfer['_id']}-{side}",
        "account_id": account_id,
        "transfer_id": transfer["_id"],
        "other_id": other_id,
        "amount": amount,
        "currency": transfer["currency"],
        "at": transfer["at"],
        "memo": transfer["memo"],
    }


def _refused(
    account_id: str, otherwise: type[SquinneyError], message: str
) -> Callable[[Document | None], SquinneyError]:
    def error_for(account: Document | None) -> SquinneyError:
        if account is None or account.get("txn_stub"):
            return UnknownAccount(f"there is no account {account_id}", account_id=account_id)
        if account.get("closed_at"):
            return AccountClosed(f"account {account_id} is closed", account_id=account_id)
        return otherwise(message, account_id=account_id)

    return error_for
