"""`Accounts`: opening and closing accounts, transfers and statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid
from squinney.ledger import queries, rules
from squinney.ledger.documents import MOST_AMOUNT, MOST_BALANCE, Account, Entry, Transfer
from squinney.ledger.errors import AccountClosed, AccountNotEmpty, CurrencyMismatch, UnknownAccount
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.transactions import UNLOCKED, Busy, Key, Plan, Transactions

CURRENCY = r"[A-Z]{3}"
CURRENCIES_KEPT = 10_000
MOST_NAMES = 1_000


class Accounts:
    """Accounts between which money moves. Money is never created, lost or spent twice.

    Several instances, in several processes and in different transaction modes, can use the same accounts. Readers may
    see a two-phase transfer half done while it runs; they see a native one completely or not at all.
    """

    def __init__(self, db: Db, *, transactions: Transactions | None = None, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._transactions = transactions or Transactions(db)
        self._clock = clock
        self._currencies: dict[str, str] = {}

    @operation()
    def open(
        self,
        currency: str,
        opening: int = 0,
        *,
        name: str = "",
        owner: str | None = None,
        key: str | Key | None = None,
    ) -> Account:
        """Open an account. `opening` is money that comes from outside.

        `owner` identifies whose account it is; the calling program must check permissions, this class does not.

        Atomic: the account and its first entry are inserted in one `Transactions` run.
        After a crash: nothing remains, or in two-phase mode invisible stubs that `recover-transactions` removes.
        Raises: `Invalid`; with a key also `KeyReused` and `StillRunning`.
        """
        checks.text(currency, "currency", most=3, pattern=CURRENCY)
        checks.integer(opening, "opening", least=0, most=MOST_BALANCE)
        checks.text(name, "name", most=100)
        account: Account = {
            "_id": new_id(),
            "name": name,
            "currency": currency,
            "balance": opening,
            "txns": [],
            "opened_at": self._clock(),
        }
        arguments: dict[str, Any] = {"currency": currency, "opening": opening, "name": name}
        if owner is not None:
            account["owner"] = arguments["owner"] = checks.identifier(owner, "owner")
        plan = Plan(rules.opening_steps(account), result=account)
        outcome = self._transactions.run("open", plan, key=key, arguments=arguments)
        return cast(Account, outcome.result)

    @operation(reads_only=True)
    def get(self, account_id: str) -> Account:
        """Return the account with this id.

        Raises: `UnknownAccount`.
        """
        checks.identifier(account_id, "account")
        account = self._db["accounts"].find_one(queries.ACCOUNT(account_id=account_id))
        if account is None:
            raise UnknownAccount(f"there is no account {account_id}", account_id=account_id)
        return cast(Account, account)

    @operation(reads_only=True)
    def names(self, account_ids: Iterable[str]) -> dict[str, str]:
        """Return the names of up to 1,000 accounts by id; unknown ids are left out.

        Raises: `Invalid`.
        """
        wanted = sorted({checks.identifier(account_id, "account") for account_id in account_ids})
        if len(wanted) > MOST_NAMES:
            raise Invalid(f"account_ids must have at most {MOST_NAMES} entries", field="account_ids", limit=MOST_NAMES)
        found = queries.SOME_ACCOUNTS.find(self._db, account_ids=wanted, projection={"name": 1})
        return {account["_id"]: account["name"] for account in found}

    @operation()
    def transfer(self, src: str, dst: str, amount: int, *, key: str | Key | None = None, memo: str = "") -> Transfer:
        """Move `amount` from one account to another, once per `key`.

        Atomic: both balances and both entries change in one `Transactions` run.
        After a crash: nothing in native mode; in two-phase mode the amount may be taken but not yet given, until
        `recover-transactions` settles the transfer.
        Raises: `Invalid`, `UnknownAccount`, `AccountClosed`, `CurrencyMismatch`, `InsufficientFunds`, `BalanceLimit`,
        `KeyReused`, `StillRunning`, `Busy`, `Unavailable`.
        """
        checks.identifier(src, "src")
        checks.identifier(dst, "dst")
        checks.integer(amount, "amount", least=1, most=MOST_AMOUNT)
        checks.text(memo, "memo", most=500)
        if src == dst:
            raise Invalid("src and dst must be different accounts", field="dst")
        transfer: Transfer = {
            "_id": new_id(),
            "src": src,
            "dst": dst,
            "amount": amount,
            "currency": self._common_currency(src, dst),
            "at": self._clock(),
            "memo": memo,
        }
        plan = Plan(rules.transfer_steps(transfer), result=transfer)
        arguments = {"src": src, "dst": dst, "amount": amount, "memo": memo}
        outcome = self._transactions.run("transfer", plan, key=key, arguments=arguments)
        return cast(Transfer, outcome.result)

    def _common_currency(self, src: str, dst: str) -> str:
        currencies = self._currencies_of(src, dst)
        for account_id in (src, dst):
            if account_id not in currencies:
                raise UnknownAccount(f"there is no account {account_id}", account_id=account_id)
        if currencies[src] != currencies[dst]:
            raise CurrencyMismatch(f"{src} has the currency {currencies[src]}, {dst} has {currencies[dst]}")
        return currencies[src]

    def _currencies_of(self, *account_ids: str) -> dict[str, str]:
        """Return the currencies of accounts. They never change, so they are cached; guards check them again."""
        cache = self._currencies  # another thread may replace the attribute
        known = {account_id: cache[account_id] for account_id in account_ids if account_id in cache}
        unknown = [account_id for account_id in account_ids if account_id not in known]
        if unknown:
            found = queries.SOME_ACCOUNTS.find(self._db, account_ids=unknown, projection={"currency": 1})
            known.update({account["_id"]: account["currency"] for account in found})
            self._currencies = {**(cache if len(cache) < CURRENCIES_KEPT else {}), **known}
        return known

    @operation()
    def close(self, account_id: str) -> Account:
        """Close an empty account permanently.

        Raises: `UnknownAccount`, `AccountClosed`, `AccountNotEmpty`; `Busy` while a transfer of the account is running.
        """
        checks.identifier(account_id, "account")
        empty = {"balance": 0, "closed_at": None, **UNLOCKED}
        closing = {"$set": {"closed_at": self._clock()}}
        closed = self._db["accounts"].find_one_and_update({"_id": account_id, **empty}, closing, return_document=True)
        if closed is not None:
            return cast(Account, closed)
        if self.get(account_id).get("closed_at"):
            raise AccountClosed(f"account {account_id} is closed", account_id=account_id)
        if self._db["accounts"].find_one({"_id": account_id, "balance": {"$ne": 0}, **UNLOCKED}, {"_id": 1}):
            raise AccountNotEmpty("only an account with a balance of zero can be closed", account_id=account_id)
        raise Busy("a transfer of this account is running; try again", account_id=account_id)

    @operation(reads_only=True)
    def statement(self, account_id: str, *, cursor: str | None = None, limit: int = 50) -> Page[Entry]:
        """List the account's entries, newest first.

        Raises: `UnknownAccount`; `Invalid` for a cursor that this list did not issue.
        """
        self.get(account_id)
        found = page(self._db, queries.STATEMENT, cursor=cursor, limit=limit, account_id=account_id)
        return cast(Page[Entry], found)

    @operation(reads_only=True)
    def all(self, *, cursor: str | None = None, limit: int = 50) -> Page[Account]:
        """List all accounts, oldest first."""
        return cast(Page[Account], page(self._db, queries.ACCOUNTS, cursor=cursor, limit=limit))

    @operation(reads_only=True)
    def owned_by(self, owner: str, *, cursor: str | None = None, limit: int = 50) -> Page[Account]:
        """List an owner's accounts, oldest first.

        Raises: `Invalid`.
        """
        checks.identifier(owner, "owner")
        return cast(Page[Account], page(self._db, queries.ACCOUNTS_OF, cursor=cursor, limit=limit, owner=owner))

    @operation(reads_only=True)
    def total(self, currency: str) -> int:
        """Return the sum of all balances in a currency, without the amounts of running two-phase transfers."""
        checks.text(currency, "currency", most=3, pattern=CURRENCY)
        found: Mapping[str, Any] | None = next(self._db["accounts"].aggregate(queries.TOTAL(currency=currency)), None)
        return int(found["total"].to_decimal()) if found else 0
