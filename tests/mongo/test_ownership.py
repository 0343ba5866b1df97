"""Collections that somebody else made are left alone; `squinney.schema` records which ones are ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson import json_util
from pymongo.collection import Collection as Stored
from tests import foreign
from tests.sizes import heavy, todays

import squinney
from squinney import assembly, commerce, content, identity, ledger
from squinney.ads import AdNetwork, find_problems
from squinney.analytics import EventLog, Retention
from squinney.analytics.events.documents import FLAT_INDEXES
from squinney.analytics.migration import migrations
from squinney.clock import utcnow
from squinney.errors import Conflict, FormerNames, Invalid, NotOurs
from squinney.mongo.embedded import Embedded
from squinney.mongo.renaming import rename_former
from squinney.mongo.schema import Collection, Db, Index, apply, check, create_missing, rebuild
from squinney.patterns import sequences
from squinney.service import doctor

RECORDS = "squinney.schema"
OLDER = Path(__file__).with_name("older_database.json")
NOTES = Collection("notes", indexes=[Index([("at", 1)], expire_after_seconds=60)], validator={"at": {"$type": "date"}})
PLAIN = Collection("plain")
ALL = assembly.collections()
WAYS: dict[str, Callable[[Db], object]] = {
    "prepare": lambda db: squinney.prepare(db, ledger, commerce, content, identity, *assembly.CORE_COLLECTIONS),
    "apply": lambda db: apply(db, ALL),
    "create_missing": lambda db: create_missing(db, ALL),
    "rebuild": lambda db: rebuild(db, ALL),
    "repair": doctor.repair,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_database_of_somebody_else_is_refused_and_stays_as_it_was(db: Db, way: str):
    foreign.fill(db)
    before = foreign.state(db)
    with pytest.raises(NotOurs) as caught:
        WAYS[way](db)
    assert sorted(caught.value.details["collections"]) == sorted(foreign.FOREIGN)
    assert all(f"--adopt {name}" in caught.value.message for name in foreign.FOREIGN)
    assert foreign.state(db) == before


@pytest.mark.parametrize("name", foreign.FOREIGN)
def test_one_collection_of_somebody_else_is_refused(db: Db, name: str):
    foreign.fill(db)
    for other in {*foreign.FOREIGN} - {name}:
        db[other].drop()
    before = foreign.state(db)
    for act in WAYS.values():
        with pytest.raises(NotOurs):
            act(db)
    assert foreign.state(db) == before


def test_a_system_added_later_does_not_take_over_either(db: Db):
    squinney.prepare(db, ledger)
    db["commerce.orders"].insert_one({"customer_no": 1})
    db["identity.people"].create_index("role")
    before = foreign.state(db)
    for system in (commerce, identity):
        with pytest.raises(NotOurs):
            squinney.prepare(db, system)
    assert foreign.state(db) == before


def test_an_empty_collection_and_a_view_are_somebody_elses_too(db: Db):
    db.create_collection("notes")
    db.create_collection("plain", viewOn="notes", pipeline=[])
    with pytest.raises(NotOurs) as caught:
        apply(db, [NOTES, PLAIN])
    assert caught.value.details["collections"] == ["notes", "plain"]


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"viewOn": "base", "pipeline": []}, "a view"),
        ({"timeseries": {"timeField": "at"}}, "a time series"),
        ({"capped": True, "size": 100_000}, "a capped collection"),
    ],
)
def test_what_cannot_keep_documents_is_never_taken_over(db: Db, options: dict[str, Any], what: str, recorded: bool):
    if recorded and "capped" not in options:
        apply(db, [NOTES, PLAIN])
        db["notes"].drop()
    db.create_collection("notes", **options)
    before = list(db.list_collections())
    with pytest.raises(NotOurs, match=f"notes is {what}, which cannot keep documents"):
        squinney.prepare(db, NOTES, adopt=["notes"])
    assert list(db.list_collections()) == before
    doctor.examine(db)


@pytest.mark.parametrize("records", [{"viewOn": "base", "pipeline": []}, {}])
def test_records_of_somebody_else_are_refused(db: Db, records: dict[str, Any]):
    db.create_collection(RECORDS, **records)
    if not records:
        db[RECORDS].insert_one({"_id": "plain", "of": "somebody else"})
    with pytest.raises(NotOurs, match=f"has a {RECORDS} that Squinney did not make"):
        apply(db, [NOTES, PLAIN])
    assert "notes" not in db.list_collection_names()


def test_a_database_that_differs_by_case_is_refused_in_a_sentence(db: Db):
    db["plain"].insert_one({})
    with pytest.raises(Invalid, match="only by upper case"):
        apply(db.client[db.name.upper()], [PLAIN])


def test_what_was_made_is_recorded(db: Db):
    apply(db, [NOTES, PLAIN])
    records = {record.pop("_id"): record for record in db[RECORDS].find()}
    made = {"origin": "created", "prepared": True, "version": squinney.__version__}
    assert records == {
        "notes": {**made, "indexes": ["at_1"], "validator": {"at": {"$type": "date"}}},
        "plain": {**made, "indexes": [], "validator": None},
    }


def test_a_collection_is_taken_over_at_the_operators_word(db: Db):
    db["notes"].insert_one({"at": 5})
    db["notes"].create_index("author", unique=True)
    with pytest.raises(NotOurs):
        squinney.prepare(db, NOTES)
    squinney.prepare(db, NOTES, adopt=["notes"])
    squinney.prepare(db, NOTES)  # the word is remembered
    assert db["notes"].index_information().keys() == {"_id_", "at_1", "author_1"}
    assert db["notes"].count_documents({}) == 1
    assert db[RECORDS].find_one({"_id": "notes"})["origin"] == "adopted"
    assert db[RECORDS].find_one({"_id": "squinney.keys"})["origin"] == "created"


def test_to_take_over_one_collection_takes_over_no_other(db: Db):
    foreign.fill(db)
    before = foreign.state(db)
    with pytest.raises(NotOurs) as caught:
        squinney.prepare(
            db, ledger, commerce, adopt=["ledger.accounts", "commerce.orders", "commerce.payments", "commerce.products"]
        )
    # The capped collection cannot be taken over.
    assert caught.value.details["collections"] == ["squinney.keys", "commerce.payments"]
    assert foreign.state(db) == before


def test_only_a_collection_to_prepare_can_be_taken_over(db: Db):
    with pytest.raises(Invalid, match="adopt: acounts is not a collection"):
        squinney.prepare(db, ledger, adopt=["acounts"])
    assert db.list_collection_names() == []


# ---- databases of older code, which kept no records ----


def _without_records(db: Db) -> None:
    db[RECORDS].drop()


def test_a_database_of_older_code_is_recognised_and_recorded(db: Db):
    apply(db, ALL)
    ledger.Accounts(db).open("EUR", 100)
    _without_records(db)
    create_missing(db, ALL)
    assert check(db, ALL) == []
    assert {record["_id"] for record in db[RECORDS].find({"origin": "recognised"})} == {
        collection.name for collection in ALL
    }
    apply(db, ALL)


def test_a_database_of_older_code_is_recognised_system_by_system(db: Db):
    for system in (ledger, commerce, content, identity):
        squinney.prepare(db, system)
    _without_records(db)
    for system in (ledger, commerce, content, identity):
        squinney.prepare(db, system)


def test_older_code_may_have_declared_one_index_less(db: Db):
    squinney.prepare(db, commerce)
    db["commerce.categories"].drop_index("parent_1_position_1__id_1")
    _without_records(db)
    squinney.prepare(db, commerce)
    assert check(db, commerce.COLLECTIONS) == []


def test_beside_collections_of_older_code_that_of_somebody_else_is_refused(db: Db):
    squinney.prepare(db, ledger)
    _without_records(db)
    db["identity.sessions"].insert_one({"token": "a"})
    db["identity.sessions"].create_index("expires_at", expireAfterSeconds=0)
    before = foreign.state(db)
    with pytest.raises(NotOurs) as caught:
        squinney.prepare(db, ledger, identity)
    assert caught.value.details["collections"] == ["identity.sessions"]
    assert foreign.state(db) == before


# ---- collections with the names of older versions ----


def test_bare_names_of_somebody_else_are_no_hindrance(db: Db):
    foreign.fill_bare(db)
    before = foreign.state(db)
    apply(db, ALL)
    assert rename_former(db, ALL) == {}
    squinney.prepare(db, ledger, commerce, content, identity)
    assert {name: found for name, found in foreign.state(db).items() if name in foreign.BARE} == before


def test_indexes_that_anybody_may_have_recognise_nothing(db: Db):
    foreign.fill_alike(db)
    before = foreign.state(db)
    assert rename_former(db, ALL) == {}
    for act in WAYS.values():
        act(db)
    assert rename_former(db, ALL) == {}
    assert {name: found for name, found in foreign.state(db).items() if name in before} == before


def test_one_system_of_older_code_makes_nothing_else_ours(db: Db):
    apply(db, [_former(collection) for collection in ledger.COLLECTIONS if collection.formerly])
    _without_records(db)
    for name in ("jobs", "migrations"):
        db[name].insert_one({"of": "somebody else"})
    renamed = rename_former(db, ALL)
    assert renamed["accounts"] == "ledger.accounts"
    assert not {"jobs", "migrations"} & renamed.keys()
    apply(db, ALL)
    assert db["jobs"].count_documents({}) == db["migrations"].count_documents({}) == 1


def _former(collection: Collection) -> Collection:
    return replace(
        collection,
        name=collection.formerly or collection.name,
        indexes=collection.former_indexes or collection.indexes,
        formerly="",
    )


def _older(db: Db) -> dict[str, str]:
    """Prepare the database as an older version did, with an account in it; return the present names by those."""
    apply(db, [_former(collection) for collection in ALL])
    db["accounts"].insert_one({"_id": "ada", "currency": "EUR", "balance": 0, "name": "Ada", "opened_at": utcnow()})
    db["rollup_runs"].insert_one({"_id": "rollups", "config": {"source": "events"}})
    apply(db, [Collection("events.d20260517", indexes=FLAT_INDEXES)])
    db["events.d20260517"].insert_one({"_id": "e", "time": utcnow(), "path": "/"})
    return {collection.formerly: collection.name for collection in ALL if collection.formerly}


@pytest.mark.parametrize("with_records", [True, False])
def test_collections_of_an_older_version_are_renamed(db: Db, with_records: bool):
    names = _older(db)
    if not with_records:
        _without_records(db)
    for act in WAYS.values():
        with pytest.raises(FormerNames, match="run `squinney migrate`"):
            act(db)
    (problem,) = [finding for finding in doctor.examine(db) if finding.level == "problem"]
    assert "run `squinney migrate`" in problem.advice
    renamed = rename_former(db, ALL)
    assert renamed == names | {"events.d20260517": "analytics.events.d20260517"}
    apply(db, ALL)
    assert not {*names} & {*db.list_collection_names()}
    assert not {*names} & {record["_id"] for record in db[RECORDS].find()}
    assert [drift for drift in check(db, ALL) if drift.collection != "analytics.events"] == []
    assert db["ledger.accounts"].find_one({"_id": "ada"})["name"] == "Ada"
    assert (db["analytics.events.d20260517"].find_one() or {})["_id"] == "e"
    for migration in migrations(db):
        migration.run()
    assert [event["path"] for event in EventLog(db).by_path("/")] == ["/"]
    assert migrations(db) == []
    assert not any(drift.collection == "analytics.events" for drift in check(db, ALL))
    assert db["analytics.rollup_runs"].find_one()["config"] == {"source": "analytics.events"}
    assert rename_former(db, ALL) == {}


def _as_older_code_made_it(db: Db) -> None:
    """Create what the last version with bare names created, as listed from its database, whatever is declared now."""
    for made in json_util.loads(OLDER.read_text()):
        db.create_collection(made["name"], **made["options"])
        if made["indexes"]:
            db.command("createIndexes", made["name"], indexes=made["indexes"])


@pytest.fixture
def day(db: Db) -> Iterator[Db]:
    """The database of a day, as the policy `rotate-databases` makes it."""
    yield db.client[f"{db.name}_d20260517"]
    db.client.drop_database(f"{db.name}_d20260517")


def test_the_database_of_the_last_version_with_bare_names_is_brought_over_whole(db: Db, day: Db):
    _as_older_code_made_it(db)
    was = {*db.list_collection_names()}
    db["entries"].insert_one({"account_id": "ada", "amount": 5, "at": utcnow()})
    db["sequences"].insert_one({"_id": "orders", "next": 7})
    was |= {"events.m202605"}
    for part in (db["events.m202605"], day["events"]):
        part.create_indexes([index.model() for index in FLAT_INDEXES])
        part.insert_one({"_id": part.full_name, "time": utcnow(), "path": "/"})
    renamed = assembly.rename_former(db)
    assert was - renamed.keys() - {collection.name for collection in ALL} == set()
    apply(db, ALL)
    for migration in migrations(db):
        migration.run()
    assert [event["path"] for event in EventLog(db).by_path("/")] == ["/", "/"]
    assert (migrations(db), day.list_collection_names()) == ([], [])
    assert check(db, ALL) == []
    assert db["ledger.entries"].count_documents({}) == 1
    squinney.prepare(db, sequences)
    assert db["squinney.sequences"].find_one() == {"_id": "orders", "next": 7}


def test_ads_of_members_that_nobody_reviewed_or_paid_wait_for_both(db: Db):
    _as_older_code_made_it(db)
    with AdNetwork(db, secret=b"test") as network:
        for name, owner in (("house", None), ("phishing", "eve")):
            pricing, budget = {"model": "cpm", "bid": 900}, {"total": 1_000, "currency": "EUR"}
            network.create_campaign(name, "A", pricing=pricing, budget=budget, owner=owner)
            creative = {"kind": "text", "title": name, "text": "", "url": "https://evil.example"}
            network.place(name, "news", "top", {"unit": name, "creative": creative})
    db["ads.budgets"].update_one({"_id": "phishing"}, {"$set": {"committed": 2_500, "spent": 2_500}})
    for name in ("campaigns", "budgets", "placements"):
        (made,) = db[f"ads.{name}"].aggregate([{"$group": {"_id": None, "all": {"$push": "$$ROOT"}}}])
        db[f"ad_{name}"].insert_many(made["all"])
        db[f"ads.{name}"].drop()
    assembly.rename_former(db)
    apply(db, ALL)
    with AdNetwork(db, secret=b"test") as network:
        assert [ad.campaign_id for ad in network.choose("news", "top", count=5)] == ["house"]
        (ad,) = network.in_review().items
        assert (ad["campaign_id"], network.get("phishing")["funded"]) == ("phishing", 3)
        network.approve("news", "top", "phishing", review_id=ad["review"]["id"])
        network.fund("phishing", 100)
        assert db["ads.budgets"].find_one({"_id": "phishing"})["total"] == 103_000
    assert [problem.code for problem in find_problems(db)] == ["wrong-spend"], "no impression was counted for it"


def test_an_empty_collection_of_ours_is_no_hindrance_to_rename_its_forerunner(db: Db):
    _older(db)
    db["accounts"].rename("aside")
    apply(db, [one for one in ALL if one.name == "ledger.accounts"])
    db["aside"].rename("accounts")
    rename_former(db, ALL)
    assert db["ledger.accounts"].find_one()["_id"] == "ada"


@heavy
@pytest.mark.parametrize("ends", todays([1, 7, 40, 60], of=2))
def test_a_crash_while_collections_are_renamed_loses_none(db: Db, ends: int, monkeypatch: pytest.MonkeyPatch):
    names = _older(db)
    _without_records(db)
    left = iter(range(ends))

    def rename(self: Stored[Any], new: str, **options: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return original(self, new, **options)

    original = Stored.rename
    monkeypatch.setattr(Stored, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        rename_former(db, ALL)
    monkeypatch.undo()
    with pytest.raises(FormerNames):
        apply(db, ALL)
    rename_former(db, ALL)
    apply(db, ALL)
    assert not {*names} & {*db.list_collection_names()}
    assert db["ledger.accounts"].count_documents({}) == 1
    assert db["analytics.rollup_runs"].find_one()["config"] == {"source": "analytics.events"}
    assert {drift.kind for drift in check(db, ALL)} <= {"extra-index"}


def test_a_collection_whose_new_name_is_taken_is_not_renamed(db: Db):
    _older(db)
    db["ledger.accounts"].insert_one({"of": "somebody else"})
    with pytest.raises(Conflict, match=r"accounts cannot be renamed: there is a collection ledger\.accounts too"):
        rename_former(db, ALL)
    assert db["accounts"].count_documents({}) == db["ledger.accounts"].count_documents({}) == 1
    assert db[RECORDS].find_one({"_id": "ledger.accounts"}) is None, "still somebody else's"


# ---- races and crashes ----


@pytest.mark.parametrize("make", [apply, create_missing])
def test_many_processes_may_prepare_an_empty_database(db: Db, make: Callable[..., None]):
    some = [NOTES, PLAIN, *(Collection(f"plain{number}") for number in range(10))]
    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(make, db, some) for _ in range(8)]:
            done.result()
    assert check(db, some) == []
    assert db[RECORDS].count_documents({"prepared": True, "origin": "created"}) == len(some)


CRASH = """
import os, sys
from pymongo import MongoClient, monitoring
from squinney import ledger, prepare

class Crash(monitoring.CommandListener):
    left = int(sys.argv[3])
    def started(self, event): pass
    def succeeded(self, event):
        if event.command_name in {"create", "createIndexes", "update", "insert", "collMod"}:
            Crash.left -= 1
            if Crash.left < 0:
                os._exit(9)
    failed = succeeded

prepare(MongoClient(sys.argv[1], event_listeners=[Crash()])[sys.argv[2]], ledger)
"""


def test_a_crash_at_any_write_of_prepare_locks_nobody_out(mongod: Embedded, db: Db):
    codes = []
    while 0 not in codes:
        db.client.drop_database(db.name)
        crashed = [sys.executable, "-c", CRASH, mongod.uri, db.name, str(len(codes))]
        codes.append(subprocess.run(crashed, check=False, env=os.environ).returncode)
        squinney.prepare(db, ledger)
        assert check(db, ledger.COLLECTIONS) == []
    assert len(codes) > 5
    assert {*codes[:-1]} == {9}


def test_after_a_crash_before_the_collection_was_created_somebody_else_may_have_it(mongod: Embedded, db: Db):
    crashed = [sys.executable, "-c", CRASH, mongod.uri, db.name, "0"]
    assert subprocess.run(crashed, check=False, env=os.environ).returncode == 9
    assert db[RECORDS].count_documents({}) > 0
    db["ledger.accounts"].insert_one({"of": "somebody else"})
    before = foreign.state(db)
    with pytest.raises(NotOurs):
        squinney.prepare(db, ledger)
    assert foreign.state(db) == before


def test_events_of_somebody_else_get_no_expiry(db: Db):
    db["analytics.events"].insert_one({"time": foreign.LONG_AGO})
    with pytest.raises(NotOurs):
        Retention(db).switch("ttl", keep_seconds=60)
    assert db["analytics.events"].index_information().keys() == {"_id_"}


def test_the_doctor_reports_what_is_not_ours_and_examines_the_rest(db: Db):
    apply(db, [one for one in ALL if one.name != "commerce.orders"])
    db["commerce.orders"].insert_one({"customer_no": 1})
    problems = [finding for finding in doctor.examine(db) if finding.level == "problem"]
    assert [finding.message for finding in problems] == [
        "commerce.orders: Squinney did not make this collection, and does not use it"
    ]
