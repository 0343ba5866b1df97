"""What a transfer is, as guarded steps. Nothing here talks to the database."""

from __future__ import annotations

from collections.abc import Callable

from squinney.errors import SquinneyError
from squinney.ledger.documents import ACCOUNTS, MOST_BALANCE, Account, Entry, Transfer
from squinney.ledger.errors import AccountClosed, BalanceLimit, InsufficientFunds, UnknownAccount
from squinney.mongo.schema import Document
from squinney.transactions import Step


def transfer_steps(transfer: Transfer) -> list[Step]:
    """Take from one account, give to the other, and write both lines."""
    amount, currency = transfer["amount"], transfer["currency"]
    return [
        Step(
            ACCOUNTS,
            transfer["src"],
            guard={"balance": {"$gte": amount}, "closed_at": None, "currency": currency},
            take={"$inc": {"balance": -amount}},
            shared=True,
            refused=_refused(transfer["src"], InsufficientFunds, "the account does not hold that much"),
        ),
        Step(
            ACCOUNTS,
            transfer["dst"],
            guard={"balance": {"$lte": MOST_BALANCE - amount}, "closed_at": None, "currency": currency},
            give={"$inc": {"balance": amount}},
            shared=True,
            may_overshoot=True,  # there is room above the limit, and many may pay into one account at once
            refused=_refused(transfer["dst"], BalanceLimit, f"an account holds at most {MOST_BALANCE}"),
        ),
        entry_step(_entry(transfer, "out", transfer["src"], transfer["dst"], -amount)),
        entry_step(_entry(transfer, "in", transfer["dst"], transfer["src"], amount)),
    ]


def opening_steps(account: Account) -> list[Step]:
    """The account, and the line that says where its first money came from."""
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
    """One line of a statement, inserted on the shard of its account."""
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
