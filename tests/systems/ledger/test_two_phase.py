"""A ledger that runs its transfers by the two-phase protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from pymongo.errors import AutoReconnect
from tests.patterns.interrupt import meanwhile, stalled_client
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.errors import Conflict, Invalid, NotFound
from squinney.ledger import COLLECTIONS, Accounts, InsufficientFunds, UnknownAccount, find_problems, repair
from squinney.ledger.documents import PROTOCOL
from squinney.ledger.system import SYSTEM
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.transactions import Busy, Transactions
from squinney.transactions.two_phase import TwoPhase, finish_stuck, runner, stuck_runs, undo_stuck
from squinney.transactions.two_phase.documents import NAME

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def bank(prepared: Prepared) -> Db:
    return prepared([*transactions.COLLECTIONS, *COLLECTIONS])


@pytest.fixture
def ledger(bank: Db) -> Accounts:
    return Accounts(bank, transactions=TwoPhase(bank))


@pytest.fixture
def two(ledger: Accounts) -> list[str]:
    return [ledger.open("EUR", 100)["_id"] for _ in range(2)]


@pytest.fixture
def decided(bank: Db, ledger: Accounts, two: list[str]) -> str:
    """The id of a run that moves 30, that was decided long ago and is not applied."""
    with patch.object(runner, "finish", side_effect=AutoReconnect):
        ledger.transfer(*two, 30, key="once")
    bank[NAME].update_one({"state": "commit"}, {"$set": {"due_at": LONG_AGO}})
    record: Any = bank[NAME].find_one({"state": "commit"})
    return str(record["_id"])


def run_jobs(db: Db) -> None:
    for job in SYSTEM.jobs:
        job.run(db)


def balances(ledger: Accounts, two: list[str]) -> list[int]:
    return [ledger.get(account_id)["balance"] for account_id in two]


def test_a_transfer_moves_money_and_writes_both_entries(bank: Db, ledger: Accounts, two: list[str]) -> None:
    first = ledger.transfer(*two, 30, key="once", memo="rent")
    assert ledger.transfer(*two, 30, key="once", memo="rent") == first
    assert balances(ledger, two) == [70, 130]
    assert [line["amount"] for line in ledger.statement(two[0]).items] == [-30, 100]
    assert all(entry["order"].time > 0 for entry in bank["ledger.entries"].find()), "the server fills the order"
    with pytest.raises(InsufficientFunds):
        ledger.transfer(*two, 71)
    assert list(find_problems(bank)) == []


def test_transfers_in_all_directions_keep_the_sum(bank: Db, ledger: Accounts, two: list[str]) -> None:
    three = [*two, ledger.open("EUR", 100)["_id"]]

    def move(number: int) -> None:
        with suppress(InsufficientFunds, Invalid):
            ledger.transfer(three[number % 3], three[(number // 3 + number + 1) % 3], 1 + number * 7 % 50)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(move, range(36)))
    assert ledger.total("EUR") == 300
    assert list(find_problems(bank)) == []


def test_an_undecided_transfer_shows_nowhere(bank: Db, ledger: Accounts, two: list[str], mongod: Embedded) -> None:
    decision = 5  # the write after the record, two locks and the batch of stubs
    with stalled_client(mongod, bank, decision) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(Accounts(slow, transactions=TwoPhase(slow)).transfer, *two, 100)
        assert stall.asleep.wait(120)
        assert bank["ledger.entries"].count_documents({"txn_stub": {"$ne": None}}) == 2
        assert balances(ledger, two) == [100, 100]
        assert "txn_lock" not in ledger.get(two[0])
        assert all("txn_lock" not in account for account in ledger.all().items)
        assert len(ledger.statement(two[0]).items) == 1
        assert list(find_problems(bank)) == []
        bank["ledger.accounts"].update_one({"_id": two[0]}, {"$set": {"balance": 0}})
        with pytest.raises(Busy):
            ledger.close(two[0])
        bank["ledger.accounts"].update_one({"_id": two[0]}, {"$set": {"balance": 100}})
        stall.awake.set()
        running.result()
    assert balances(ledger, two) == [0, 200]
    assert ledger.close(two[0])["closed_at"]


def test_an_account_that_is_being_opened_does_not_exist_yet(bank: Db, ledger: Accounts, mongod: Embedded) -> None:
    ledger.open("EUR")
    with stalled_client(mongod, bank, 4) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(Accounts(slow, transactions=TwoPhase(slow)).open, "EUR", 5)
        assert stall.asleep.wait(120)
        stub: Any = bank["ledger.accounts"].find_one({"txn_stub": {"$ne": None}})
        with pytest.raises(UnknownAccount):
            ledger.get(stub["_id"])
        assert (len(ledger.all().items), ledger.total("EUR")) == (1, 0)
        stall.awake.set()
        assert running.result()["_id"] == stub["_id"]
    assert ledger.total("EUR") == 5


# ---- native or two-phase, for good ----


def native(db: Db) -> Accounts:
    return Accounts(db, transactions=Transactions(db))


def in_two_phases(db: Db) -> Accounts:
    return Accounts(db, transactions=TwoPhase(db))


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (in_two_phases, native, "this ledger is two-phase for good"),
        (native, in_two_phases, "this ledger is native for good"),
        (Accounts, in_two_phases, "this ledger is native for good"),
    ],
)
def test_a_ledger_uses_one_protocol_for_good(
    bank: Db, first: Callable[[Db], Accounts], then: Callable[[Db], Accounts], message: str
) -> None:
    two = [first(bank).open("EUR", 100)["_id"] for _ in range(2)]
    other = then(bank)
    for refused in (lambda: other.open("EUR"), lambda: other.transfer(*two, 1), lambda: other.plan_transfer(*two, 1)):
        with pytest.raises(Conflict, match=message):
            refused()
    assert (balances(other, two), other.total("EUR")) == ([100, 100], 200), "reading works with both"
    assert first(bank).transfer(*two, 1)


def test_many_transfers_at_once_need_a_native_ledger(bank: Db, ledger: Accounts, two: list[str]) -> None:
    transfers: Any = [{"src": two[0], "dst": two[1], "amount": 1}]
    for accounts in (ledger, native(bank)):
        with pytest.raises(Conflict, match="two-phase"):
            accounts.transfer_many(transfers)
    assert balances(ledger, two) == [100, 100]


def test_the_protocol_is_looked_up_once_per_object(bank: Db, ledger: Accounts, two: list[str]) -> None:
    bank["ledger.protocol"].update_one({}, {"$set": {"protocol": "native"}})
    assert ledger.transfer(*two, 1)


def test_two_processes_that_begin_a_ledger_agree(bank: Db, mongod: Embedded) -> None:
    with (
        meanwhile(mongod, bank, lambda: native(bank).open("EUR"), "findAndModify", PROTOCOL.name) as db,
        pytest.raises(Conflict, match="native for good"),
    ):
        in_two_phases(db).open("EUR")
    assert native(bank).open("EUR")


# ---- runs that died, and runs that are stuck ----


def test_a_job_finishes_what_was_decided(bank: Db, ledger: Accounts, two: list[str], decided: str) -> None:
    assert [problem.code for problem in find_problems(bank)] == ["stuck-run"]
    assert [(document["held"], document["verb"]) for document in stuck_runs(bank)[0]["documents"]] == [
        (True, "update"),
        (True, "update"),
        (True, "insert"),
        (True, "insert"),
    ]
    run_jobs(bank)
    assert balances(ledger, two) == [70, 130]
    assert list(find_problems(bank)) == []


def test_repair_settles_runs_and_frees_what_orphans_hold(bank: Db, ledger: Accounts, two: Any, decided: str) -> None:
    third = ledger.open("EUR", 1)["_id"]
    bank["ledger.accounts"].update_one({"_id": third}, {"$set": {"txn_lock": "lost"}})
    assert {problem.code for problem in find_problems(bank)} == {"stuck-run", "orphan-lock"}
    assert repair(bank) == {"finished": 1, "documents freed": 1}
    assert balances(ledger, [*two, third]) == [70, 130, 1]
    assert list(find_problems(bank)) == []


@pytest.fixture
def rejected(bank: Db, decided: str) -> Iterator[str]:
    """A decided run whose second account a new validator rejects, after the first one was changed."""
    record: Any = bank[NAME].find_one({"state": "commit"})
    ids = [stored["filter"]["_id"] for stored in record["steps"] if stored["verb"] == "update"]
    bank.command("collMod", "ledger.accounts", validator={"$or": [{"_id": {"$ne": ids[1]}}, {"balance": {"$lt": 130}}]})
    run_jobs(bank)
    yield decided
    bank.command("collMod", "ledger.accounts", validator=dict(COLLECTIONS[-2].validator or {}))


def test_an_operator_finishes_a_stuck_run(bank: Db, ledger: Accounts, two: list[str], rejected: str) -> None:
    assert [document["held"] for document in stuck_runs(bank)[0]["documents"]] == [False, True, False, False]
    finish_stuck(bank, rejected)
    assert balances(ledger, two) == [70, 130]
    assert (stuck_runs(bank), list(find_problems(bank))) == ([], [])


def test_an_operator_undoes_a_stuck_run(bank: Db, ledger: Accounts, two: list[str], rejected: str) -> None:
    undo_stuck(bank, rejected)
    assert balances(ledger, two) == [100, 100]
    assert (stuck_runs(bank), list(find_problems(bank))) == ([], [])
    assert ledger.transfer(*two, 10, key="once"), "the key is free"


def test_what_cannot_be_taken_back_stays(bank: Db, ledger: Accounts, two: list[str], rejected: str) -> None:
    """The account that was changed already is in use by another run."""
    bank["ledger.accounts"].update_one({"_id": two[0]}, {"$set": {"txn_lock": "other"}})
    with pytest.raises(Conflict, match="cannot be taken back now"):
        undo_stuck(bank, rejected)
    assert balances(ledger, two) == [70, 100]
    assert len(stuck_runs(bank)) == 1


@pytest.mark.parametrize("settle", [finish_stuck, undo_stuck])
def test_only_a_decided_run_is_settled_by_an_operator(
    bank: Db, ledger: Accounts, two: list[str], settle: Callable[[Db, str], None]
) -> None:
    ledger.transfer(*two, 1)
    done: Any = bank[NAME].find_one({"kind": "transfer"})
    with pytest.raises(Conflict, match="is done"):
        settle(bank, str(done["_id"]))
    with pytest.raises(NotFound):
        settle(bank, "0" * 24)
    with pytest.raises(Invalid, match="not the id of a run"):
        settle(bank, "run")
