"""A filled database is sharded while it is used, by the functions of `squinney shard`."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymongo import MongoClient

from squinney import assembly
from squinney.errors import Conflict
from squinney.ledger import Accounts, find_problems
from squinney.mongo import schema
from squinney.mongo.schema import Db, Document
from squinney.service import doctor, sharding
from squinney.service.backup import back_up, restore
from squinney.transactions import Transactions

LEDGER = [one for one in assembly.SYSTEMS if one.name == "ledger"]
COLLECTIONS = assembly.collections(LEDGER)
PATIENCE_SECONDS = 120


@pytest.fixture
def db(router: MongoClient[Document]) -> Iterator[Db]:
    """A database with money in it that is not sharded yet."""
    db = router[f"test_{secrets.token_hex(8)}"]
    schema.apply(db, COLLECTIONS)
    LEDGER[0].demo(db)
    yield db
    router.drop_database(db.name)


def test_a_filled_database_is_sharded_while_it_is_used(db: Db, tmp_path: Path) -> None:
    accounts = Accounts(db, transactions=Transactions(db, timeout_seconds=PATIENCE_SECONDS))
    ids = [accounts.open("EUR", 1_000)["_id"] for _ in range(4)]
    total = accounts.total("EUR")
    stop, refused = threading.Event(), []

    def transfer() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                accounts.transfer(ids[number % 4], ids[(number + 1) % 4], 1)
            except Exception as error:
                refused.append(error)

    thread = threading.Thread(target=transfer)
    thread.start()
    try:
        planned = sharding.shard(db, COLLECTIONS, evenly=True)
    finally:
        stop.set()
        thread.join()
    assert refused == []
    assert {one.state for one in planned} == {"sharded", "unsharded"}
    assert len(next(one.shards for one in planned if one.name == "ledger.entries")) > 1
    assert sharding.shard(db, COLLECTIONS) == sharding.plan(db, COLLECTIONS), "again, it changes nothing"
    checked = sharding.check(db, assembly.queries(LEDGER))
    assert [one for one in checked if one.outcome in ("differs", "not explained")] == []
    assert "as declared" in {one.outcome for one in checked if one.declared == "one"}
    assert accounts.total("EUR") == total
    assert list(find_problems(db)) == []
    assert [one for one in doctor.examine(db, systems=LEDGER) if one.level == "problem"] == []
    back_up(db, tmp_path / "b", declared=COLLECTIONS)
    restored = db.client[f"{db.name}_r"]
    try:
        restore(restored, tmp_path / "b")
        assert Accounts(restored).total("EUR") == total
        assert list(find_problems(restored)) == []
    finally:
        db.client.drop_database(restored.name)


def test_nothing_is_sharded_that_would_lose_uniqueness(db: Db) -> None:
    db["ledger.accounts"].create_index("number", unique=True, sparse=True)
    with pytest.raises(Conflict, match=r"nothing was sharded: ledger\.accounts: .* number_1"):
        sharding.shard(db, COLLECTIONS)
    assert {one.state for one in sharding.plan(db, COLLECTIONS)} == {"to shard", "unsharded", "refused"}
