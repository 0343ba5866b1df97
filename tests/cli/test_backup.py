"""`squinney backup` and `squinney restore`: of one moment, whole or not at all, and into nothing else."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from tests.cli.child import children

import squinney as library
from squinney import assembly, ledger
from squinney.errors import Conflict, Invalid, NotFound
from squinney.ledger import Accounts, find_problems
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.problems import SnapshotTooOld
from squinney.mongo.schema import Collection, Db
from squinney.service.backup import back_up, read_backup, restore
from squinney.transactions import Transactions

COLLECTIONS = [*assembly.CORE_COLLECTIONS, *ledger.COLLECTIONS]
TOTAL = 4_000


@pytest.fixture
def elsewhere(db: Db) -> Iterator[Db]:
    """Another database of the server, which does not exist yet."""
    other = db.client[f"{db.name}_restored"]
    yield other
    db.client.drop_database(other.name)


def accounts_of(db: Db) -> list[str]:
    """Prepare a ledger with four accounts."""
    schema.apply(db, COLLECTIONS)
    return [Accounts(db).open("EUR", TOTAL // 4)["_id"] for _ in range(4)]


def catalog(db: Db) -> dict[str, Any]:
    """Return the options and indexes of every collection."""
    infos = {info["name"]: info["options"] for info in db.list_collections() if not info["name"].startswith("system.")}
    indexes = {name: sorted(db[name].list_indexes(), key=lambda index: str(index["name"])) for name in infos}
    return {name: (options, indexes[name]) for name, options in infos.items()}


@pytest.fixture
def long_history(client: MongoClient[Any]) -> Iterator[None]:
    """Let the test server keep its history for minutes, as others do, since a busy machine may stall for seconds."""
    kept = client.admin.command("setParameter", 1, minSnapshotHistoryWindowInSeconds=600)["was"]
    yield
    client.admin.command("setParameter", 1, minSnapshotHistoryWindowInSeconds=kept)


@pytest.mark.usefixtures("long_history")
def test_the_drill_under_load(squinney: Any, ready_db: Db, tmp_path: Path) -> None:
    """What is restored is of one moment: the money is all there, every entry has its transfer, `doctor` is content."""
    db, folder, name = ready_db, tmp_path / "kept" / "monday", f"{ready_db.name}_restored"
    ids = [Accounts(db).open("EUR", TOTAL // 4)["_id"] for _ in range(4)]
    stop = threading.Event()

    def transfer(start: int) -> None:
        accounts = Accounts(db, transactions=Transactions(db))
        for number in itertools.count(start):
            accounts.transfer(ids[number % 4], ids[(number + 1) % 4], 1)
            if stop.is_set():
                return

    threads = [threading.Thread(target=transfer, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    taken = squinney("backup", str(folder), "--json")
    stop.set()
    for thread in threads:
        thread.join()
    assert taken.returncode == 0, taken.stderr
    try:
        result = squinney("restore", str(folder), "--json", SQUINNEY_DATABASE=name)
        assert result.returncode == 0, result.stderr + result.stdout
        assert [one for one in json.loads(result.stdout)["findings"] if one["area"] != "server"] == []
        restored = db.client[name]
        assert catalog(restored) == catalog(db)
        assert Accounts(restored).total("EUR") == TOTAL
        assert 0 < restored["ledger.entries"].count_documents({}) < db["ledger.entries"].count_documents({})
    finally:
        db.client.drop_database(name)


def test_what_changes_during_a_backup_is_not_in_it(db: Db, elsewhere: Db, tmp_path: Path) -> None:
    ada, ben, *_ = accounts_of(db)
    Accounts(db).transfer(ada, ben, 10)

    def also_transfer(name: str, done: int, total: int) -> None:
        Accounts(db).transfer(ada, ben, 10)

    back_up(db, tmp_path / "b", declared=COLLECTIONS, report=also_transfer)
    restore(elsewhere, tmp_path / "b")
    assert Accounts(elsewhere).get(ben)["balance"] == TOTAL // 4 + 10
    assert list(find_problems(elsewhere)) == []


def test_options_indexes_and_other_databases_are_kept(db: Db, elsewhere: Db, tmp_path: Path) -> None:
    """Clustered and capped collections and one with a collation, with a validator that old documents do not pass."""
    options: dict[str, dict[str, Any]] = {
        "clustered": {"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "validator": {"n": {"$type": "int"}}},
        "sorted": {"collation": {"locale": "de"}},
    }
    for name, given in options.items():
        db.create_collection(name, **given)
    declared = [Collection(name, parts_in=r"_d\d{8}" if name == "clustered" else "") for name in options]
    declared.append(Collection("capped", options={"capped": True, "size": 4_096}))
    schema.apply(db, declared, adopt=options)
    part = db.client[f"{db.name}_d20260517"]
    schema.apply(part, [Collection("clustered", options={"clusteredIndex": options["clustered"]["clusteredIndex"]})])
    db["clustered"].create_index([("text", "text")], default_language="none")
    db["sorted"].create_index("n", unique=True, partialFilterExpression={"n": {"$gt": 1}})
    db["clustered"].insert_one({"_id": 1, "n": "old"}, bypass_document_validation=True)
    db["capped"].insert_many([{"_id": number} for number in (3, 1, 2)])
    part["clustered"].insert_one({"_id": 2})
    db["not ours"].insert_one({})
    try:
        taken = back_up(db, tmp_path / "b", declared=declared)
        assert [part.name for part in taken.parts if not part.of_the_moment] == ["capped"]
        restore(elsewhere, tmp_path / "b")
        expected = catalog(db)
        del expected["not ours"]
        assert catalog(elsewhere) == expected
        for name in [*options, "capped"]:
            assert list(elsewhere[name].find()) == list(db[name].find())
        assert db.client[f"{elsewhere.name}_d20260517"]["clustered"].find_one() == {"_id": 2}
    finally:
        db.client.drop_database(part.name)
        db.client.drop_database(f"{elsewhere.name}_d20260517")


def test_a_backup_that_takes_too_long_is_refused(own_db: Db, failing: Any, tmp_path: Path) -> None:
    accounts_of(own_db)

    def forget(*_: object) -> None:
        """Let the server forget its history."""
        own_db.client.admin.command("setParameter", 1, minSnapshotHistoryWindowInSeconds=0)
        for _ in range(20):
            Accounts(own_db).open("EUR")
        own_db.client.admin.command("setParameter", 1, minSnapshotHistoryWindowInSeconds=5)

    with pytest.raises(SnapshotTooOld, match=r"`mongodump --oplog` or a snapshot of the file system"):
        back_up(own_db, tmp_path / "b", declared=COLLECTIONS, report=forget)
    assert not list(tmp_path.iterdir())


def _die_in_a_backup(uri: str, database: str, folder: Path) -> None:
    with client_for(uri) as client:
        back_up(client[database], folder, declared=COLLECTIONS, report=lambda *_: os._exit(9))


def test_a_database_without_anything_of_ours_is_refused(squinney: Any, db: Db, tmp_path: Path) -> None:
    db["orders"].insert_one({})
    refused = squinney("backup", str(tmp_path / "b"))
    assert (refused.returncode, refused.stderr.count("\n")) == (3, 1), refused.stderr
    assert "has nothing that Squinney made" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_killed_backup_is_none(db: Db, elsewhere: Db, mongod: Any, tmp_path: Path) -> None:
    accounts_of(db)
    folder = tmp_path / "b"
    child = children.Process(target=_die_in_a_backup, args=(mongod.uri, db.name, folder))
    child.start()
    child.join()
    (partial,) = tmp_path.iterdir()
    for left in (folder, partial):
        with pytest.raises(NotFound, match="is not a backup"):
            restore(elsewhere, left)
    with pytest.raises(Conflict, match=r"b\.partial is of a backup that is running, or was killed: then remove it"):
        back_up(db, folder, declared=COLLECTIONS)
    partial.rename(tmp_path / "removed")
    back_up(db, folder, declared=COLLECTIONS)
    with pytest.raises(Conflict, match="a backup needs a new folder"):
        back_up(db, folder, declared=COLLECTIONS)


def test_a_damaged_backup_is_refused_before_anything_is_restored(db: Db, elsewhere: Db, tmp_path: Path) -> None:
    accounts_of(db)
    back_up(db, tmp_path / "b", declared=COLLECTIONS)
    entries = next(part.file for part in read_backup(tmp_path / "b").parts if part.name == "ledger.entries")
    (tmp_path / "b" / entries).write_bytes(b"")
    with pytest.raises(Invalid, match=f"is damaged: {entries}"):
        restore(elsewhere, tmp_path / "b")
    (tmp_path / "b" / "backup.json").write_text("{")
    with pytest.raises(Invalid, match=r"backup\.json is damaged"):
        restore(elsewhere, tmp_path / "b")
    assert elsewhere.list_collection_names() == []


def test_a_restore_overwrites_nothing(db: Db, tmp_path: Path) -> None:
    accounts_of(db)
    back_up(db, tmp_path / "b", declared=COLLECTIONS)
    with pytest.raises(Conflict, match=r"is restored into an empty database: .* has documents in ledger\.accounts"):
        restore(db, tmp_path / "b")
    library.prepare(db, ledger)


def test_a_restore_that_was_ended_is_refused_by_all_until_it_runs_again(db: Db, elsewhere: Db, tmp_path: Path) -> None:
    ada, ben, *_ = accounts_of(db)
    Accounts(db).transfer(ada, ben, 10)
    back_up(db, tmp_path / "b", declared=COLLECTIONS)
    schema.apply(elsewhere, [one for one in COLLECTIONS if one.name == "ledger.entries"])  # as for sharding it

    def end(name: str, done: int, total: int) -> None:
        if name == "ledger.entries":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(elsewhere, tmp_path / "b", report=end)
    with pytest.raises(Conflict, match="is being restored from a backup"):
        library.prepare(elsewhere, ledger)
    with pytest.raises(Conflict, match="is being restored from a backup"):
        back_up(elsewhere, tmp_path / "c", declared=COLLECTIONS)
    restore(elsewhere, tmp_path / "b")
    library.prepare(elsewhere, ledger)
    assert Accounts(elsewhere).total("EUR") == TOTAL
    assert list(find_problems(elsewhere)) == []
