"""`squinney.connect` and `squinney.prepare`: what a program begins with."""

from __future__ import annotations

import pytest

import squinney
from squinney import ledger, transactions
from squinney.errors import Invalid
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Collection, Db


def test_two_imports_are_enough(mongod: Embedded, db: Db):
    with squinney.connect(mongod.uri, database=db.name) as connection:
        squinney.prepare(connection.db, ledger)
        accounts = ledger.Accounts(connection.db)
        ada, ben = accounts.open("EUR", 500)["_id"], accounts.open("EUR")["_id"]
        accounts.transfer(ada, ben, 200, key="lunch")
        assert accounts.get(ben)["balance"] == 200


def test_arguments_win_over_the_environment(mongod: Embedded, db: Db, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MONGODB_URI", mongod.uri)
    monkeypatch.setenv("SQUINNEY_DATABASE", "of_the_environment")
    with squinney.connect() as connection:
        assert connection.db.name == "of_the_environment"
    with squinney.connect(database=db.name) as connection:
        assert connection.db.name == db.name
    monkeypatch.setenv("MONGODB_URI", "nonsense")
    with squinney.connect(mongod.uri, database=db.name) as connection:
        assert connection.db.command("ping")["ok"] == 1


def test_systems_and_own_collections_are_prepared_together_with_the_transactions(db: Db):
    squinney.prepare(db, ledger, Collection("notes"))
    squinney.prepare(db, ledger, Collection("notes"))
    declared = {one.name for one in [*transactions.COLLECTIONS, *ledger.COLLECTIONS]}
    assert set(db.list_collection_names()) == declared | {"notes"}


@pytest.mark.parametrize("part", ["ledger", None, pytest])
def test_what_has_no_collections_is_refused(db: Db, part: object):
    with pytest.raises(Invalid, match=r"prepare takes systems, such as squinney\.ledger"):
        squinney.prepare(db, part)  # type: ignore[arg-type]
    assert db.list_collection_names() == []
