"""The declaration of identity. Its pages are not in the menu, because every page links to them."""

from __future__ import annotations

from typing import Any

from squinney import identity
from squinney.mongo.schema import Db
from squinney.system import System
from squinney.transactions import Transactions


def _build(db: Db, transactions: Transactions) -> dict[str, Any]:
    return {
        "people": identity.People(db, transactions=transactions),
        "sessions": identity.Sessions(db),
        "keys": identity.Keys(db),
        "new_accounts": identity.NewAccounts(db),
        "invitations": identity.Invitations(db, transactions=transactions),
    }


SYSTEM = System(
    package="squinney.identity",
    title="People",
    what="People who sign in, their roles, and the API keys of trusted servers.",
    collections=identity.COLLECTIONS,
    queries=identity.QUERIES,
    build=_build,
    find_problems=identity.find_problems,
    repair=identity.repair,
)
