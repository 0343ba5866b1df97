"""`squinney.connect` and `squinney.prepare`, which every program calls first."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient

import squinney
from squinney import commerce, content, ledger, transactions
from squinney.errors import Invalid, NotPrepared, Unavailable
from squinney.ledger.system import SYSTEM
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Collection, Db
from squinney.testing.server_commands import watched


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
    assert set(db.list_collection_names()) == declared | {"notes", "squinney.schema"}


@pytest.mark.parametrize(("part", "named"), [("ledger", "'ledger'"), (None, "None"), (pytest, "pytest, which has no")])
def test_what_has_no_collections_is_refused(db: Db, part: object, named: str):
    with pytest.raises(
        Invalid, match=rf"prepare takes systems, such as squinney\.ledger, and Collections, not {named}"
    ):
        squinney.prepare(db, part)  # type: ignore[arg-type]
    assert db.list_collection_names() == []


def test_a_declared_system_is_prepared_like_its_module(db: Db):
    squinney.prepare(db, SYSTEM)
    declared = {one.name for one in [*transactions.COLLECTIONS, *ledger.COLLECTIONS]}
    assert set(db.list_collection_names()) == declared | {"squinney.schema"}
    assert len(repr(SYSTEM)) < 2_000


@pytest.mark.parametrize("use", [lambda given: squinney.prepare(given, ledger), ledger.Accounts])
def test_a_connection_a_client_or_an_asynchronous_database_is_no_database(
    mongod: Embedded, use: Callable[[Any], object]
):
    asynchronous = AsyncMongoClient(mongod.uri, connect=False)["some"]
    with squinney.connect(mongod.uri, database="some") as connection:
        for given in (connection, connection.client, asynchronous, None):
            with pytest.raises(Invalid, match=r"a PyMongo Database is needed here, such as squinney\.connect\(\)\.db"):
                use(given)


# ---- who forgets it ----

PICTURE = base64.b64decode("R0lGODlhAQABAIAAAP///wAAACH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==")
ADA: Any = {"_id": "ada", "name": "Ada"}
RESTING_ON_AN_INDEX: list[tuple[Any, Callable[[Db], object]]] = [
    (content, lambda db: content.Nodes(db).create(None, "home", "folder", "Home", ADA)),
    (content, lambda db: content.Photos(db).upload(io.BytesIO(PICTURE), None, "dawn", author=ADA)),
    (commerce, lambda db: commerce.Categories(db).add("Music")),
    (commerce, lambda db: commerce.Categories(db).add_paths([["Music", "Jazz"]])),
    (commerce, lambda db: commerce.Catalog(db).find(words="prairie")),
]


@pytest.mark.parametrize(("part", "act"), RESTING_ON_AN_INDEX)
def test_what_rests_on_an_index_is_refused_without_it(db: Db, part: Any, act: Callable[[Db], object]):
    with pytest.raises(NotPrepared, match=r"squinney\.prepare\(db"):
        act(db)
    assert [name for name in db.list_collection_names() if db[name].count_documents({})] == []
    squinney.prepare(db, part)
    act(db)


def test_what_rests_on_no_index_works_without_them(db: Db):
    accounts = ledger.Accounts(db)
    ada, ben = accounts.open("EUR", 500)["_id"], accounts.open("EUR")["_id"]
    accounts.transfer(ada, ben, 200, key="lunch")
    squinney.prepare(db, ledger, adopt=["ledger.accounts", "ledger.entries", "ledger.protocol", "squinney.keys"])
    assert list(ledger.find_problems(db)) == []
    assert accounts.total("EUR") == 500


def test_the_indexes_are_asked_for_once(mongod: Embedded, db: Db):
    squinney.prepare(db, commerce)
    with watched(mongod.uri, db.name) as (seen, commands):
        categories = commerce.Categories(seen)
        categories.add("Music")
        categories.add("Films")
        assert commands.names.count("listIndexes") == 1


def test_prepare_without_its_server_is_unavailable():
    with client_for("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100") as client, pytest.raises(Unavailable):
        squinney.prepare(client["nowhere"], ledger)
