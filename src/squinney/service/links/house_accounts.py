"""The accounts of the house, which receive what members pay: one for each purpose and currency."""

from __future__ import annotations

from squinney.ledger import Account, Accounts
from squinney.mongo.deadlines import operation
from squinney.transactions import Key

MAX_ACCOUNTS = 100


@operation(reads_only=True)
def open_accounts(accounts: Accounts, owner: str, currency: str) -> list[Account]:
    """List the open accounts of an owner in a currency."""
    owned = accounts.owned_by(owner, limit=MAX_ACCOUNTS).items
    return [account for account in owned if account["currency"] == currency and not account.get("closed_at")]


@operation()
def house_account(accounts: Accounts, owner: str, name: str, currency: str) -> str:
    """Return the id of the account of this owner and currency; the first call opens it.

    Atomic: the opening.
    After a crash: nothing, or an account without money.
    Raises: `Invalid`, `Unavailable`.
    """
    if existing := open_accounts(accounts, owner, currency):
        return existing[0]["_id"]
    # Two first payments open one account, because of the key.
    return accounts.open(currency, name=f"{name}, {currency}", owner=owner, key=Key(currency, owner))["_id"]
