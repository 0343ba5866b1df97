"""`squinney remove` drops what Squinney made for a system, and nothing else."""

from __future__ import annotations

from typing import Any

from tests import foreign

from squinney.ledger import Accounts
from squinney.mongo.schema import Db
from squinney.transactions import Step, Transactions


def names(db: Db) -> set[str]:
    return {name for name in db.list_collection_names() if not name.startswith("system.")}


def test_a_system_is_removed_after_a_confirmation(squinney: Any, db: Db) -> None:
    foreign.fill_bare(db)
    before = foreign.state(db)
    assert squinney("demo", "--systems", "ledger,ads").returncode == 0
    loaded = foreign.state(db)
    refused = squinney("remove", "ads")
    assert refused.returncode == 2
    assert refused.stderr.endswith("\nsquinney: nothing was dropped: confirm it, or give --yes\n")
    assert foreign.state(db) == loaded
    removed = squinney("remove", "ads", typed="y\n")
    assert removed.returncode == 0, removed.stderr
    assert "drops: ads.campaigns, " in removed.stdout
    assert {name for name in names(db) if name.startswith("ads.")} == set()
    assert squinney("doctor", "--systems", "ledger").returncode == 0
    assert "nothing of ads" in squinney("remove", "ads", "--yes").stdout
    assert squinney("demo", "--systems", "ledger,ads").returncode == 0  # it is loaded again
    assert db["ads.campaigns"].estimated_document_count()
    assert squinney("remove", "all", "--yes").returncode == 0
    assert foreign.state(db) == before


def test_a_key_is_forgotten_with_what_its_operation_wrote(squinney: Any, db: Db) -> None:
    """Or an operation repeated with it would return an account that does not exist any more."""
    assert squinney("demo", "--systems", "ledger,commerce").returncode == 0
    accounts = Accounts(db)
    opened = [account["_id"] for account in accounts.all().items]
    ada, bob = opened[:2]
    accounts.transfer_many([{"src": ada, "dst": bob, "amount": 1}], key="many")
    runner = Transactions(db)
    runner.run("transfer", [Step("my.invoices", 7, insert={"paid": True})], key="mine", arguments={})
    runner.run("vip", [Step("ledger.accounts", ada, update={"$set": {"vip": True}})], key="vip", arguments={})
    stock = set(db["squinney.keys"].distinct("_id", {"collections": "commerce.stock"}))
    assert stock
    assert squinney("remove", "ledger", "--yes").returncode == 0
    left = list(db["squinney.keys"].find())
    assert stock < {record["_id"] for record in left}
    assert [record["kind"] for record in left if record["_id"] not in stock] == ["transfer"]
    assert squinney("demo", "--systems", "ledger,commerce").returncode == 0
    assert len(Accounts(db).all().items) == len(opened)
    assert squinney("doctor", "--systems", "ledger,commerce").returncode == 0


def test_what_is_of_somebody_else_stays(squinney: Any, db: Db) -> None:
    db["identity.people"].insert_one({"name": "Ada"})
    assert squinney("indexes", "--apply", "--adopt", "identity.people", "--systems", "identity").returncode == 0
    db.create_collection("commerce.orders", validator=foreign.VALIDATOR)
    db["commerce.orders"].create_index("customer_no", unique=True)
    db["squinney.demo"].drop()
    db["squinney.demo"].insert_one({"text": "hello"})
    db["squinney.schema"].delete_one({"_id": "squinney.demo"})
    before = foreign.state(db)
    removed = squinney("remove", "all", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert "stays: identity.people: it was taken over" in removed.stdout
    assert "stays: commerce.orders: Squinney did not make it" in removed.stdout
    kept = ("commerce.orders", "identity.people", "squinney.demo")
    assert foreign.state(db) == {name: before[name] for name in kept}


def test_parts_of_a_collection_are_removed_with_it(squinney: Any, db: Db) -> None:
    assert squinney("indexes", "--apply", "--systems", "analytics").returncode == 0
    db["squinney.schema"].insert_one({"_id": "analytics.events.m2026_01", "prepared": True, "origin": "created"})
    db["analytics.events.m2026_01"].insert_one({})
    db["analytics.events.m2026_02"].insert_one({})  # somebody else's: not recorded
    assert squinney("remove", "analytics", "--yes").returncode == 0
    assert {name for name in names(db) if name.startswith("analytics")} == {"analytics.events.m2026_02"}
