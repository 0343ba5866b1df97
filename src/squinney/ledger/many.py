"""Many transfers in one transaction: each account is read and changed once, and all entries are inserted at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pymongo.client_session import ClientSession

from squinney.errors import Invalid, SquinneyError
from squinney.ledger import queries, rules
from squinney.ledger.documents import ACCOUNTS, MAX_BALANCE, NewTransfer, Transfer, TransferOutcome
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.transactions import Plan, Step, apply_steps

MAX_TRANSFERS = 1_000  # a tenth of a second; the embedded server ends transactions after 10 s
FIELDS = {"src", "dst", "amount", "memo"}


def check_transfers(transfers: Sequence[NewTransfer]) -> list[NewTransfer]:
    """Return the transfers, each with a memo.

    Raises: `Invalid`, which names the number of a transfer from 0, and its field.
    """
    if not isinstance(transfers, list | tuple):
        raise Invalid("transfers must be a list", field="transfers")
    if len(transfers) > MAX_TRANSFERS:
        message = f"transfers must have at most {MAX_TRANSFERS} entries, not {len(transfers)}"
        raise Invalid(message, field="transfers", limit=MAX_TRANSFERS)
    return [_checked(transfer, f"transfers[{number}]") for number, transfer in enumerate(transfers)]


def _checked(transfer: Any, where: str) -> NewTransfer:
    if not isinstance(transfer, Mapping):
        raise Invalid(f"{where} must have the fields src, dst and amount", field=where)
    if unknown := [name for name in transfer if name not in FIELDS]:
        raise Invalid(f"{where} must not have the field {unknown[0]}", field=where)
    src, dst, amount = (transfer.get(name) for name in ("src", "dst", "amount"))
    memo = transfer.get("memo", "")
    rules.check_transfer(src, dst, amount, memo, f"{where}.")
    return {"src": src, "dst": dst, "amount": amount, "memo": memo}  # type: ignore[typeddict-item]


def move(
    db: Db, transfers: Sequence[NewTransfer], at: datetime, also: Sequence[Step], session: ClientSession
) -> list[TransferOutcome]:
    """Decide the transfers from the accounts as this transaction sees them, and write those that are accepted.

    Every account that was read is written, even if its balance stays the same: otherwise two transactions that decide
    from each other's accounts would both succeed, with outcomes that no order of them gives.
    """
    ids = sorted({account_id for transfer in transfers for account_id in (transfer["src"], transfer["dst"])})
    accounts = queries.SOME_ACCOUNTS.find(db, account_ids=ids, session=session).batch_size(2 * MAX_TRANSFERS + 1)
    books = Books({account["_id"]: account for account in accounts})
    outcomes = [books.enter(transfer, at) for transfer in transfers]
    accepted = [outcome["transfer"] for outcome in outcomes if "transfer" in outcome]
    apply_steps(db, Plan(books.steps()).also(also).steps, session)
    if accepted:  # after the accounts, so that the order of the entries is that of the changes
        db["ledger.entries"].insert_many(
            [entry for transfer in accepted for entry in rules.entries_of(transfer)], session=session
        )
    return outcomes


class Books:
    """The accounts of many transfers in memory, each with its balance after the transfers that were accepted."""

    def __init__(self, accounts: dict[str, Document]) -> None:
        self._accounts = accounts
        # A damaged account has no currency or balance here: it refuses its own transfers, and no others.
        self._currencies = {
            account_id: account["currency"]
            for account_id, account in accounts.items()
            if isinstance(account.get("currency"), str)
        }
        self._balances = {
            account_id: account["balance"]
            for account_id, account in accounts.items()
            if _is_balance(account.get("balance"))
        }
        self._moved: Counter[str] = Counter()

    def enter(self, wanted: NewTransfer, at: datetime) -> TransferOutcome:
        """Make the transfer in memory, or refuse it as `transfer` would."""
        src, dst, amount, memo = wanted["src"], wanted["dst"], wanted["amount"], wanted.get("memo", "")
        try:
            currency = rules.common_currency(src, dst, self._currencies)
            self._require_balances(src, dst, amount)
        except SquinneyError as error:
            return {"refused": {"code": error.code, "message": error.message, "details": error.details}}
        self._moved[src] -= amount
        self._moved[dst] += amount
        transfer: Transfer = {
            "_id": new_id(),
            "src": src,
            "dst": dst,
            "amount": amount,
            "currency": currency,
            "at": at,
            "memo": memo,
        }
        return {"transfer": transfer}

    def _require_balances(self, src: str, dst: str, amount: int) -> None:
        source, destination = self._accounts[src], self._accounts[dst]
        # guard: none of many transfers is from a closed account
        # guard: each of many transfers sees those before it
        if source.get("closed_at") or self._balances.get(src, 0) + self._moved[src] < amount:
            raise rules.source_refused(src)(source)
        room = MAX_BALANCE - self._balances.get(dst, MAX_BALANCE) - self._moved[dst]
        # guard: none of many transfers is to a closed account
        if destination.get("closed_at") or room < amount:
            raise rules.destination_refused(dst)(destination)

    def steps(self) -> list[Step]:
        """Return a step for each account: its net change, or only a write, which the server would refuse if damaged."""
        sound = self._currencies.keys() & self._balances.keys()
        # guard: many transfers write every account that they read
        return [Step(ACCOUNTS, account_id, update=_change(self._moved[account_id])) for account_id in sorted(sound)]


def _is_balance(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _change(moved: int) -> Document | None:
    return {"$inc": {"balance": moved}} if moved else None
