"""`squinney doctor` on healthy and damaged databases."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from squinney import assembly, commerce, content, identity
from squinney.analytics.events.documents import FLAT_INDEXES
from squinney.core import CORE_COLLECTIONS
from squinney.ledger import Accounts
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.service import doctor
from squinney.service.doctor import indexes, server


def problems(result: Any) -> list[str]:
    """Return the messages of all problems."""
    found = json.loads(result.stdout)["findings"]
    return [finding["message"] for finding in found if finding["level"] == "problem"]


def test_a_healthy_database_is_well(squinney: Any, ready_db: Db) -> None:
    accounts = Accounts(ready_db)
    accounts.transfer(accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"], 10)
    result = squinney("doctor", "--json")
    assert result.returncode == 0, result.stderr
    assert problems(result) == []


def test_an_empty_database_lacks_its_indexes_until_repaired(squinney: Any, db: Db) -> None:
    result = squinney("doctor", "--json")
    assert result.returncode == 1
    assert any("missing-collection" in message for message in problems(result))
    assert squinney("doctor", "--repair").returncode == 0
    assert squinney("doctor").returncode == 0


def _wrong_balance(db: Db) -> None:
    account = Accounts(db).open("EUR", 100)
    db["ledger.accounts"].update_one({"_id": account["_id"]}, {"$set": {"balance": 150}})


def _missing_index(db: Db) -> None:
    db["ledger.entries"].drop_index("account_id_1_order_-1__id_-1")


DAMAGE = [
    (_wrong_balance, "wrong-balance"),
    (_missing_index, "missing-index"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGE, ids=[said for _, said in DAMAGE])
def test_damage_is_reported_and_repaired(squinney: Any, ready_db: Db, damage: Any, said: str) -> None:
    damage(ready_db)
    result = squinney("doctor", "--json")
    assert result.returncode == 1
    assert any(said in message for message in problems(result)), result.stdout
    assert squinney("doctor", "--repair").returncode == 0
    assert squinney("doctor").returncode == 0
    assert all(account["balance"] == 100 for account in ready_db["ledger.accounts"].find())


def test_problems_that_need_a_decision_are_not_repaired(squinney: Any, ready_db: Db) -> None:
    accounts = Accounts(ready_db)
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    transfer = accounts.transfer(ada, ben, 10)
    ready_db["ledger.entries"].delete_one({"_id": f"{transfer['_id']}-in"})
    result = squinney("doctor", "--repair", "--json")
    assert result.returncode == 1
    assert any("unbalanced-transfer" in message for message in problems(result))
    assert accounts.get(ben)["balance"] == 10, "money may not vanish by an entry that did"


def test_a_conflicting_index_does_not_stop_other_repairs(squinney: Any, ready_db: Db) -> None:
    ready_db["ledger.accounts"].drop_index("currency_1")
    ready_db["ledger.accounts"].create_index("currency", sparse=True)
    _missing_index(ready_db)
    _wrong_balance(ready_db)
    result = squinney("doctor", "--repair", "--json")
    assert result.returncode == 1
    assert problems(result) == ["ledger.accounts: different-index currency_1"]
    repaired = json.loads(result.stdout)["repaired"]
    assert repaired == {"collections and indexes": 1, "ledger: balances set": 1}


def test_duplicate_values_do_not_stop_other_repairs(squinney: Any, ready_db: Db) -> None:
    ready_db["commerce.categories"].drop_index("slug_1")
    tea = {"slug": "tea", "name": "Tea", "parent": None, "ancestors": []}
    ready_db["commerce.categories"].insert_many(
        [{**tea, "_id": f"tea {number}", "position": number} for number in range(2)]
    )
    _wrong_balance(ready_db)
    result = squinney("doctor", "--repair", "--json")
    assert "commerce.categories: missing-index slug_1" in problems(result), result.stderr
    assert json.loads(result.stdout)["repaired"]["ledger: balances set"] == 1
    applied = squinney("indexes", "--apply")
    assert applied.returncode == 5
    assert "commerce.categories: documents have equal values under a unique index" in applied.stderr
    assert applied.stderr.count("\n") == 1


def test_failing_and_late_jobs_are_reported(squinney: Any, ready_db: Db) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    last = {"outcome": "ok", "finished_at": long_ago, "duration_seconds": 0.1, "result": {}}
    late = {"_id": "end-abandoned-transactions", "next_at": long_ago, "runs": 1, "failures": 0, "last": last}
    ready_db["squinney.jobs"].insert_one(late)
    result = squinney("doctor")
    assert result.returncode == 0, "it is late because nobody serves: no fault of the data"
    assert re.search(r"notice jobs: end-abandoned-transactions has been due for 36\d\d s", result.stdout)
    failed = {**last, "outcome": "failed", "error": "RuntimeError: no"}
    ready_db["squinney.jobs"].update_one({"_id": late["_id"]}, {"$set": {"failures": 3, "last": failed}})
    assert problems(squinney("doctor", "--json")) == [
        "end-abandoned-transactions failed 3 times in a row: RuntimeError: no",
    ]


def test_a_full_disk_is_reported(ready_db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is raised above the disk of this machine, since the disk cannot be filled."""
    monkeypatch.setattr(server, "MIN_FREE_BYTES", 1 << 62)
    (disk,) = [finding for finding in doctor.examine(ready_db) if finding.area == "disk"]
    assert re.fullmatch(r"only \d+ MiB are free", disk.message)


def test_indexes_that_are_needed_without_queries_are_not_called_unused(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a database that no other test has queried."""
    schema.apply(db, [*identity.COLLECTIONS, *commerce.COLLECTIONS, *content.COLLECTIONS])
    monkeypatch.setattr(indexes, "MIN_DOCUMENTS", 0)
    assert [one for one in doctor.examine(db) if one.area == "indexes"] == [], "not on the first day of the server"
    monkeypatch.setattr(indexes, "MIN_AGE", timedelta(0))
    unused = {finding.message.split(" ")[0] for finding in doctor.examine(db) if finding.area == "indexes"}
    assert "identity.people.role_1" in unused
    assert "identity.sessions.expires_at_1" not in unused  # a TTL index
    assert "commerce.categories.slug_1" not in unused  # unique
    assert "content.assets.chunks.files_id_1_n_1" not in unused  # unique, and of the shard key
    assert "commerce.payments.cart_id_1_attempt_1" in unused or "commerce.payments.state_1_at_1" in unused


def test_a_failure_and_a_finding_have_different_exit_codes(squinney: Any, ready_db: Db, own_mongod: Any, failing: Any):
    ready_db["ledger.accounts"].drop_index("currency_1")
    assert squinney("doctor").returncode == 1
    with failing(["dbStats"], errorCode=13):
        assert squinney("doctor", MONGODB_URI=own_mongod.uri).returncode == 70


def test_a_user_that_may_not_read_the_use_of_indexes_is_told_so(
    own_db: Db, failing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema.apply(own_db, CORE_COLLECTIONS)
    monkeypatch.setattr(indexes, "MIN_DOCUMENTS", 0)
    with failing(["aggregate"], errorCode=13, namespace=f"{own_db.name}.{CORE_COLLECTIONS[0].name}"):
        found = [one.message for one in doctor.examine(own_db, systems=[]) if one.area == "indexes"]
    assert found == ["this user may not read how often indexes are used"]


def test_a_rebuild_succeeds_beside_an_index_of_somebody_else(squinney: Any, ready_db: Db) -> None:
    ready_db["ledger.accounts"].create_index("name")
    ready_db["ledger.entries"].drop_index("account_id_1_order_-1__id_-1")
    assert squinney("indexes").returncode == 1
    assert squinney("indexes", "--rebuild").returncode == 0
    assert "name_1" in ready_db["ledger.accounts"].index_information()
    ready_db["ledger.accounts"].drop_index("name_1")


def test_documents_that_wait_for_a_migration_are_named_and_nothing_is_repaired_meanwhile(ready_db: Db) -> None:
    repaired = replace(next(one for one in assembly.SYSTEMS if one.name == "analytics"), repair=lambda _: {"visits": 1})
    assert doctor.repair(ready_db, systems=[repaired]) == {"analytics: visits": 1}
    ready_db["analytics.events"].create_indexes([index.model() for index in FLAT_INDEXES])
    (found,) = [one for one in doctor.examine(ready_db, systems=[repaired]) if one.area == "analytics"]
    assert found.message == "analytics.events has documents of an older version, which nobody sees yet"
    assert doctor.repair(ready_db, systems=[repaired])["analytics: visits"] == 0
