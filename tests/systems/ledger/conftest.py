"""A ledger on a database of its own."""

from __future__ import annotations

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.ledger import COLLECTIONS, Accounts
from squinney.mongo.schema import Db
from squinney.transactions import Transactions


@pytest.fixture
def ledger_db(prepared: Prepared) -> Db:
    """A database with the ledger's collections."""
    return prepared([*transactions.COLLECTIONS, *COLLECTIONS])


@pytest.fixture
def accounts(ledger_db: Db) -> Accounts:
    """Return the ledger, with a short time limit."""
    return Accounts(ledger_db, transactions=Transactions(ledger_db, timeout_seconds=10))
