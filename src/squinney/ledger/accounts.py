"""`Accounts`: opening and closing accounts, transfers and statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid
from squinney.ledger import many, queries, rules, statement
from squinney.ledger.documents import MAX_BALANCE, Account, Entry, NewTransfer, Transfer, TransferOutcome
from squinney.ledger.errors import UnknownAccount
from squinney.ledger.protocol import Runs
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.transactions import CHECKS_FIELD, Key, Plan, Step, Transactions
from squinney.transactions.two_phase import LOCK_FIELD, TwoPhase

CURRENCY = r"[A-Z]{3}"
CURRENCIES_KEPT = 10_000
OWN_FIELDS = {CHECKS_FIELD: 0, LOCK_FIELD: 0}
MAX_NAMES = 1_000


class Accounts:
    """Accounts between which money moves. Money is never created, lost or spent twice.

    Several instances, in several processes, can use the same accounts. Readers see a transfer completely or not at all.

    With `transactions=TwoPhase(db)`, the ledger runs the book's two-phase protocol, and its readers may see a transfer
    half done. A ledger uses the one or the other for good, which is recorded: the other is refused with a `Conflict`.
    """

    def __init__(self, db: Db, *, transactions: Transactions | TwoPhase | None = None, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._transactions = Runs(self._db, transactions or Transactions(db))
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
        also: Sequence[Step] = (),
    ) -> Account:
        """Open an account. `opening` is money that comes from outside.

        `owner` identifies whose account it is; the calling program must check permissions, this class does not. `also`
        are further steps, which happen with the opening or not at all.

        Atomic: the account, its first entry and the further steps are written in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`; with a key also `KeyReused`; the errors of `also`.
        """
        checks.text(currency, "currency", max_length=3, pattern=CURRENCY)
        checks.integer(opening, "opening", minimum=0, maximum=MAX_BALANCE)
        checks.text(name, "name", max_length=100)
        account: Account = {
            "_id": new_id(),
            "name": name,
            "currency": currency,
            "balance": opening,
            "opened_at": self._clock(),
        }
        arguments: dict[str, Any] = {"currency": currency, "opening": opening, "name": name}
        if owner is not None:
            account["owner"] = arguments["owner"] = checks.identifier(owner, "owner")
        plan = Plan(rules.opening_steps(account), result=account).also(also)
        outcome = self._transactions.run("open", plan, key=key, arguments=arguments)
        return cast(Account, outcome.result)

    @operation(reads_only=True)
    def get(self, account_id: str) -> Account:
        """Return the account with this id.

        Raises: `UnknownAccount`.
        """
        checks.identifier(account_id, "account")
        account = queries.ACCOUNT.find_one(self._db, account_id=account_id, projection=OWN_FIELDS)
        if account is None:
            raise UnknownAccount(f"there is no account {account_id}", account_id=account_id)
        return cast(Account, account)

    @operation(reads_only=True)
    def names(self, account_ids: Iterable[str]) -> dict[str, str]:
        """Return the names of up to 1,000 accounts by id; unknown ids are left out.

        Raises: `Invalid`.
        """
        wanted = sorted({checks.identifier(account_id, "account") for account_id in account_ids})
        if len(wanted) > MAX_NAMES:
            raise Invalid(f"account_ids must have at most {MAX_NAMES} entries", field="account_ids", limit=MAX_NAMES)
        accounts = queries.SOME_ACCOUNTS.find(self._db, account_ids=wanted, projection={"name": 1})
        return {account["_id"]: account["name"] for account in accounts}

    @operation()
    def transfer(
        self,
        src: str,
        dst: str,
        amount: int,
        *,
        key: str | Key | None = None,
        memo: str = "",
        also: Sequence[Step] = (),
    ) -> Transfer:
        """Move `amount` from one account to another, once per `key`.

        `also` are further steps, which happen with the transfer or not at all.

        Atomic: both balances, both entries and the further steps are written in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownAccount`, `AccountClosed`, `CurrencyMismatch`, `InsufficientFunds`, `BalanceLimit`,
        `KeyReused`, `Busy`, `Unavailable`; the errors of `also`.
        """
        plan = self.plan_transfer(src, dst, amount, memo=memo).also(also)
        arguments = {"src": src, "dst": dst, "amount": amount, "memo": memo}
        outcome = self._transactions.run("transfer", plan, key=key, arguments=arguments)
        return cast(Transfer, outcome.result)

    @operation()
    def transfer_many(
        self, transfers: Sequence[NewTransfer], *, key: str | Key | None = None, also: Sequence[Step] = ()
    ) -> list[TransferOutcome]:
        """Make up to 1,000 transfers at once, as if one after the other, once per `key`; return an outcome for each.

        A refused transfer refuses only itself; its outcome has the error that `transfer` would raise. `also` are
        further steps, which happen with the accepted transfers; if one of them is refused, nothing happens.

        Atomic: the transaction's commit.
        After a crash: nothing remains.
        Raises: `Invalid`, which names the number of the transfer from 0, and its field; `KeyReused`, `Busy`,
        `Unavailable`; `Conflict` if the ledger runs in two phases; the errors of `also`.
        """
        wanted = many.check_transfers(transfers)
        at = self._clock()
        arguments = {"transfers": wanted}
        return self._transactions.once(
            "transfer-many",
            lambda session: many.move(self._db, wanted, at, also, session),
            key=key,
            arguments=arguments,
        )

    @operation(reads_only=True)
    def plan_transfer(self, src: str, dst: str, amount: int, *, memo: str = "", about: str = "") -> Plan:
        """Return the steps of a transfer without moving anything, to be run together with steps of other systems.

        `about` is the path of the page that shows what the money is for; statements link to it.

        Raises: `Invalid`, `UnknownAccount`, `CurrencyMismatch`. The steps refuse what else `transfer` refuses.
        """
        rules.check_transfer(src, dst, amount, memo)
        self._transactions.require_protocol()
        currency = rules.common_currency(src, dst, self._currencies_of(src, dst))
        at = self._clock()
        transfer: Transfer = {
            "_id": new_id(),
            "src": src,
            "dst": dst,
            "amount": amount,
            "currency": currency,
            "at": at,
            "memo": memo,
        }
        if about:
            transfer["about"] = checks.text(about, "about", max_length=500)
        return Plan(rules.transfer_steps(transfer), result=transfer)

    def _currencies_of(self, *account_ids: str) -> dict[str, str]:
        """Return the currencies of accounts. They never change, so they are cached; guards check them again."""
        cache = self._currencies  # another thread may replace the attribute
        known = {account_id: cache[account_id] for account_id in account_ids if account_id in cache}
        unknown = [account_id for account_id in account_ids if account_id not in known]
        if unknown:
            accounts = queries.SOME_ACCOUNTS.find(self._db, account_ids=unknown, projection={"currency": 1})
            known.update({account["_id"]: account["currency"] for account in accounts})
            self._currencies = {**(cache if len(cache) < CURRENCIES_KEPT else {}), **known}
        return known

    @operation()
    def close(self, account_id: str, *, also: Sequence[Step] = ()) -> Account:
        """Close an empty account permanently. `also` are further steps, which happen with it or not at all.

        Atomic: the account and the further steps are changed in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `UnknownAccount`, `AccountClosed`, `AccountNotEmpty`, `Busy`, `Unavailable`; the errors of `also`.
        """
        step = rules.closing_step(checks.identifier(account_id, "account"), self._clock())
        self._transactions.run("close", Plan([step]).also(also), key=None, arguments={})
        return self.get(account_id)

    @operation(reads_only=True)
    def statement(self, account_id: str, *, cursor: str | None = None, limit: int = 50) -> Page[Entry]:
        """List the account's entries, newest first, in the order in which the money moved.

        Each has the `balance` of the account after it. A cursor contains a balance: sign it before a browser gets it.

        Raises: `UnknownAccount`; `Invalid` for a cursor that this list did not issue.
        """
        checks.identifier(account_id, "account")
        return statement.read(self._db, account_id, cursor, limit)

    @operation(reads_only=True)
    def all(self, *, cursor: str | None = None, limit: int = 50) -> Page[Account]:
        """List all accounts, oldest first."""
        accounts = page(self._db, queries.ACCOUNTS, cursor=cursor, limit=limit, projection=OWN_FIELDS)
        return cast(Page[Account], accounts)

    @operation(reads_only=True)
    def owned_by(self, owner: str, *, cursor: str | None = None, limit: int = 50) -> Page[Account]:
        """List an owner's accounts, oldest first.

        Raises: `Invalid`.
        """
        checks.identifier(owner, "owner")
        accounts = page(self._db, queries.ACCOUNTS_OF, cursor=cursor, limit=limit, projection=OWN_FIELDS, owner=owner)
        return cast(Page[Account], accounts)

    @operation(reads_only=True)
    def total(self, currency: str) -> int:
        """Return the sum of all balances in a currency."""
        checks.text(currency, "currency", max_length=3, pattern=CURRENCY)
        sums = next(queries.TOTAL.run(self._db, currency=currency), None)
        return int(sums["total"].to_decimal()) if sums else 0
