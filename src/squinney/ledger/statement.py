"""Statements: the entries of an account, newest first, each with the balance after it.

These balances are not stored. The newest is that of the account, which is read in one snapshot with the first page.
Each older one follows from the amount of the entry after it, and a cursor contains the balance with which the next page
begins. So a page deep in a statement costs as much as the first, and transfers that happen meanwhile change no balance.
"""

from __future__ import annotations

from typing import Any, cast

from bson.int64 import Int64

from squinney.errors import Invalid
from squinney.ledger import queries
from squinney.ledger.documents import Entry
from squinney.ledger.errors import UnknownAccount
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, cursor_after, cursor_keys, page

CURSOR = [*queries.STATEMENT.sort, ("balance", -1)]


def read(db: Db, account_id: str, cursor: str | None, limit: int) -> Page[Entry]:
    """Return a page of a statement.

    Raises: `UnknownAccount`; `Invalid`.
    """
    balance, inner = _opened(cursor) if cursor else (None, cursor)
    # guard: a statement and the balance with which it begins are of one moment
    with db.client.start_session(snapshot=True) as session:
        account = queries.ACCOUNT.find_one(db, account_id=account_id, session=session)
        if account is None:
            raise UnknownAccount(f"there is no account {account_id}", account_id=account_id)
        entries = page(db, queries.STATEMENT, cursor=inner, limit=limit, session=session, account_id=account_id)
    return _with_balances(entries, balance if cursor else account.get("balance"))


def _opened(cursor: str) -> tuple[int | None, str]:
    """Return the balance with which the page after the cursor begins, and the cursor without it."""
    keys = cursor_keys(CURSOR, cursor)
    balance = keys.pop("balance")
    if type(balance) not in (int, Int64, type(None)):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return balance, cursor_after(queries.STATEMENT.sort, keys)


def _with_balances(entries: Page[Document], balance: Any) -> Page[Entry]:
    """Add the balance after each entry; it is left out for a damaged account, and before a damaged entry."""
    items: list[Entry] = []
    for entry in entries.items:
        line = {name: value for name, value in entry.items() if name != "order"}
        items.append(cast(Entry, {**line, "balance": balance} if isinstance(balance, int) else line))
        balance = _difference(balance, entry.get("amount"))
    if entries.next is None:
        return Page(items)
    # guard: the balances of the next page go on from this one
    return Page(items, cursor_after(CURSOR, {**entries.items[-1], "balance": balance}))


def _difference(balance: Any, amount: Any) -> int | None:
    return balance - amount if isinstance(balance, int) and isinstance(amount, int) else None
