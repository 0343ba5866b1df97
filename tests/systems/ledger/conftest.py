"""A ledger in each transaction mode."""

from __future__ import annotations

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.ledger import COLLECTIONS, Accounts
from squinney.mongo.schema import Db
from squinney.transactions import Mode, Transactions


@pytest.fixture(params=["native", "two-phase"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Run every test that uses this fixture in both modes."""
    return request.param


@pytest.fixture
def ledger_db(prepared: Prepared) -> Db:
    """A database with the ledger's collections."""
    return prepared([*transactions.COLLECTIONS, *COLLECTIONS])


@pytest.fixture
def accounts(ledger_db: Db, mode: Mode) -> Accounts:
    """Return the ledger, with short deadlines."""
    return Accounts(ledger_db, transactions=Transactions(ledger_db, mode, timeout_seconds=10))
