"""A statement lists entries in the order in which the money moved."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from threading import Event

import pytest
from bson.timestamp import Timestamp
from tests.patterns.interrupt import meanwhile

from squinney.clock import utcnow
from squinney.errors import Conflict, Invalid
from squinney.ledger import Accounts, Entry
from squinney.ledger.system import SYSTEM
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.patterns.paging import all_items, cursor_after
from squinney.service.commands.migrate import run_all
from squinney.transactions.two_phase import TwoPhase

TEN_MINUTES = timedelta(minutes=10)


@pytest.fixture
def apart(ledger_db: Db) -> tuple[Accounts, Accounts]:
    """Two workers with clocks ten minutes apart."""
    return Accounts(ledger_db), Accounts(ledger_db, clock=lambda: utcnow() - TEN_MINUTES)


def oldest_first(accounts: Accounts, account_id: str) -> list[Entry]:
    """Return all lines of a statement, read in small pages."""
    pages = all_items(lambda cursor: accounts.statement(account_id, cursor=cursor, limit=3))
    return list(pages)[::-1]


def balances_after(entries: list[Entry]) -> list[int]:
    """Return the balance after each line."""
    return [sum(entry["amount"] for entry in entries[: number + 1]) for number in range(len(entries))]


def test_a_statement_does_not_depend_on_the_clocks_of_the_workers(apart: tuple[Accounts, Accounts]) -> None:
    right, slow = apart
    ada, ben = right.open("EUR", 50)["_id"], right.open("EUR")["_id"]
    right.transfer(ada, ben, 50)
    slow.transfer(ben, ada, 20)
    right.transfer(ada, ben, 20)
    assert balances_after(oldest_first(right, ada)) == [50, 0, 20, 0]
    assert balances_after(oldest_first(slow, ben)) == [50, 30, 50]


def test_a_two_phase_statement_does_not_depend_on_the_clocks_either(ledger_db: Db) -> None:
    right = Accounts(ledger_db, transactions=TwoPhase(ledger_db))
    slow = Accounts(ledger_db, transactions=TwoPhase(ledger_db), clock=lambda: utcnow() - TEN_MINUTES)
    ada, ben = right.open("EUR", 50)["_id"], right.open("EUR")["_id"]
    right.transfer(ada, ben, 50)
    slow.transfer(ben, ada, 20)
    assert balances_after(oldest_first(right, ada)) == [50, 0, 20]


def test_no_line_is_out_of_order_under_load(apart: tuple[Accounts, Accounts], ledger_db: Db) -> None:
    """With little money every balance is often zero, so a line at a wrong place makes the balance negative."""
    ids = [apart[0].open("EUR", 10)["_id"] for _ in range(3)]

    def move(number: int) -> None:
        src, dst = random.Random(number).sample(ids, 2)
        try:
            apart[number % 2].transfer(src, dst, 10)
        except Conflict:
            return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(move, range(300)))
    lines = [entry for account_id in ids for entry in oldest_first(apart[0], account_id)]
    assert len(lines) > 60
    assert [account_id for account_id in ids if min(balances_after(oldest_first(apart[1], account_id))) < 0] == []


def test_the_order_is_stored_but_not_returned(ledger_db: Db) -> None:
    accounts = Accounts(ledger_db)
    ada, ben = accounts.open("EUR", 5)["_id"], accounts.open("EUR")["_id"]
    transfer = accounts.transfer(ada, ben, 1, key="once")
    stored = list(ledger_db["ledger.entries"].find())
    assert all(isinstance(entry["order"], Timestamp) and entry["order"] > Timestamp(1, 1) for entry in stored)
    assert "order" not in transfer
    assert not any("order" in entry for entry in accounts.statement(ada).items)


# ---- the balance after each line ----


def true_balances(db: Db, account_id: str) -> dict[str, int]:
    """Return the balance after each stored entry, by its id: the sum of all entries up to it."""
    entries = list(db["ledger.entries"].find({"account_id": account_id}).sort([("order", 1), ("_id", 1)]))
    sums = accumulate(entry["amount"] for entry in entries)
    return {entry["_id"]: balance for entry, balance in zip(entries, sums, strict=True)}


@pytest.mark.parametrize("limit", [1, 3, 200])
def test_each_line_has_the_balance_after_it_while_money_moves(ledger_db: Db, limit: int) -> None:
    accounts, stop = Accounts(ledger_db), Event()
    ids = [accounts.open("EUR", 1_000)["_id"] for _ in range(3)]

    def move(number: int) -> None:
        chance = random.Random(number)
        while not stop.is_set():
            accounts.transfer(*chance.sample(ids, 2), chance.randint(1, 3))

    def walk(account_id: str) -> Iterator[Entry]:
        return all_items(lambda cursor: accounts.statement(account_id, cursor=cursor, limit=limit))

    with ThreadPoolExecutor(3) as pool:
        movers = [pool.submit(move, number) for number in range(3)]
        try:
            while ledger_db["ledger.entries"].count_documents({}) < 30:
                time.sleep(0.01)
            read = [(account_id, list(walk(account_id))) for account_id in ids * 4]
        finally:
            stop.set()
    for mover in movers:
        mover.result()
    truth = {account_id: true_balances(ledger_db, account_id) for account_id in ids}
    for account_id, lines in read:
        assert [line["balance"] for line in lines] == [truth[account_id][line["_id"]] for line in lines]
        assert lines[-1]["balance"] == lines[-1]["amount"] == 1_000
    assert max(len(lines) for _, lines in read) > 5


def test_a_statement_and_its_balance_are_of_one_moment(ledger_db: Db, mongod: Embedded) -> None:
    accounts = Accounts(ledger_db)
    ada, ben = accounts.open("EUR", 50)["_id"], accounts.open("EUR")["_id"]
    transfer = partial(Context().run, accounts.transfer, ada, ben, 20)  # its writes are not counted as the statement's
    with meanwhile(mongod, ledger_db, transfer, "find", "ledger.entries") as db:
        before = Accounts(db).statement(ada).items
    assert [(line["amount"], line["balance"]) for line in before] == [(50, 50)]
    after = accounts.statement(ada).items
    assert [(line["amount"], line["balance"]) for line in after] == [(-20, 30), (50, 50)]


def test_a_cursor_of_another_list_is_refused(accounts: Accounts) -> None:
    ada = accounts.open("EUR", 50)["_id"]
    keys = {"order": Timestamp(1, 1), "_id": "a", "balance": "much"}
    for cursor in ("", "x", cursor_after([("order", -1), ("_id", -1)], keys), cursor_after([*keys.items()], keys)):  # type: ignore[arg-type]
        with pytest.raises(Invalid, match="cursor is not a cursor of this list"):
            accounts.statement(ada, cursor=cursor)


def test_a_damaged_account_has_a_statement_without_balances(ledger_db: Db) -> None:
    accounts = Accounts(ledger_db)
    ada, ben = accounts.open("EUR", 50)["_id"], accounts.open("EUR")["_id"]
    for amount in (1, 2, 3):
        accounts.transfer(ada, ben, amount)
    where = {"account_id": ada, "amount": -2}
    ledger_db.command(
        "update",
        "ledger.entries",
        updates=[{"q": where, "u": {"$set": {"amount": "x"}}}],
        bypassDocumentValidation=True,
    )
    lines = list(all_items(lambda cursor: accounts.statement(ada, cursor=cursor, limit=1)))
    assert [line.get("balance") for line in lines] == [44, 47, None, None]
    ledger_db.command(
        "update",
        "ledger.accounts",
        updates=[{"q": {"_id": ada}, "u": {"$set": {"balance": "x"}}}],
        bypassDocumentValidation=True,
    )
    assert not any("balance" in line for line in accounts.statement(ada).items)


# ---- a ledger whose entries have no order yet ----


def _old_ledger(db: Db) -> str:
    """Insert an account with five entries, one a minute, as they were written before entries had an order."""
    start = datetime(2026, 1, 1, 12, 0, 0, 7_000, tzinfo=UTC)
    account = {"_id": "old", "name": "", "currency": "EUR", "balance": 15, "opened_at": start}
    entry = {"account_id": "old", "transfer_id": None, "currency": "EUR", "memo": ""}
    times = [start + timedelta(minutes=number) for number in range(5)]
    db["ledger.accounts"].insert_one(account)
    db["ledger.entries"].insert_many(
        [{**entry, "_id": f"{9 - number}-in", "amount": number + 1, "at": at} for number, at in enumerate(times)]
    )
    return "old"


def test_a_statement_is_complete_before_the_migration_and_in_order_after_it(ledger_db: Db) -> None:
    accounts = Accounts(ledger_db)
    old, other = _old_ledger(ledger_db), accounts.open("EUR", 100)["_id"]
    accounts.transfer(other, old, 6)
    assert sorted(entry["amount"] for entry in oldest_first(accounts, old)) == [1, 2, 3, 4, 5, 6]
    assert oldest_first(accounts, old)[-1]["amount"] == 6, "an entry with an order is newer than those without"
    report = run_all(ledger_db, [SYSTEM], Event(), quiet=True)["ledger.entries"]
    assert (report["scanned"], report["upgraded"], report["failed"]) == (8, 5, 0)
    assert [entry["amount"] for entry in oldest_first(accounts, old)] == [1, 2, 3, 4, 5, 6]
    assert next(ledger_db["ledger.entries"].find({"_id": "9-in"}))["order"] == Timestamp(1_767_268_800, 8)


def test_the_migration_changes_nothing_twice_and_names_what_it_cannot_read(ledger_db: Db) -> None:
    _old_ledger(ledger_db)
    ledger_db["ledger.entries"].insert_one(
        {"_id": "odd", "account_id": "old", "amount": 1, "at": "noon"}, bypass_document_validation=True
    )
    reports = [run_all(ledger_db, [SYSTEM], Event(), quiet=True)["ledger.entries"] for _ in range(2)]
    assert [(report["upgraded"], report["failed"]) for report in reports] == [(5, 1), (0, 1)]
    assert reports[0]["failures"] == [{"id": "odd", "reason": "at is not a time"}]
