"""`transfer_many` does what `transfer` does one by one, at once."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.patterns.interrupt import meanwhile
from tests.plugins.shelf import Shelf
from tests.sizes import IN_FULL
from tests.systems.ledger.test_accounts import snapshot
from tests.systems.ledger.test_statement import balances_after, oldest_first

from squinney import transactions
from squinney.clock import utcnow
from squinney.errors import Conflict, Invalid, SquinneyError
from squinney.ledger import COLLECTIONS, Accounts, NewTransfer, TransferOutcome, find_problems
from squinney.ledger.documents import MAX_BALANCE
from squinney.ledger.many import MAX_TRANSFERS
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.transactions import KeyReused
from squinney.transactions.two_phase import TwoPhase

# How accounts are opened, by number: 5 is closed, 6 exists nowhere.
OPENINGS = [("EUR", 100), ("EUR", 20), ("EUR", 0), ("EUR", MAX_BALANCE - 30), ("USD", 50), ("EUR", 0)]
FRESH = {"_id", "transfer_id", "at"}
MOVES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 60), st.sampled_from(["", "rent"])).filter(
        lambda move: move[0] != move[1]
    ),
    max_size=25,
)


def opened(accounts: Accounts) -> list[str]:
    ids = [accounts.open(currency, opening)["_id"] for currency, opening in OPENINGS]
    accounts.close(ids[5])
    return [*ids, "nobody"]


def made(ids: list[str], moves: list[Any]) -> list[NewTransfer]:
    return [{"src": ids[src], "dst": ids[dst], "amount": amount, "memo": memo} for src, dst, amount, memo in moves]


def one_by_one(accounts: Accounts, transfers: list[NewTransfer]) -> list[TransferOutcome]:
    outcomes: list[TransferOutcome] = []
    for transfer in transfers:
        try:
            done = accounts.transfer(transfer["src"], transfer["dst"], transfer["amount"], memo=transfer["memo"])
            outcomes.append({"transfer": done})
        except SquinneyError as error:
            outcomes.append({"refused": {"code": error.code, "message": error.message, "details": error.details}})
    return outcomes


def comparable(value: Any, ids: list[str]) -> Any:
    """Return outcomes or statements with numbers for the ids of accounts, and without fresh ids and times."""
    if isinstance(value, dict):
        return {name: comparable(inner, ids) for name, inner in value.items() if name not in FRESH}
    if isinstance(value, list):
        return [comparable(inner, ids) for inner in value]
    if isinstance(value, str):
        for number, account_id in enumerate(ids):
            value = value.replace(account_id, f"<{number}>")
    return value


@settings(max_examples=200 if IN_FULL else 15, deadline=None, suppress_health_check=list(HealthCheck))
@given(moves=MOVES)
def test_many_transfers_end_as_one_by_one(moves: list[Any], shelf: Shelf) -> None:
    ends = []
    for make in (one_by_one, Accounts.transfer_many):
        db = shelf.take([*transactions.COLLECTIONS, *COLLECTIONS])
        accounts = Accounts(db)
        ids = opened(accounts)
        outcomes = make(accounts, made(ids, moves))
        balances = [accounts.get(account_id)["balance"] for account_id in ids[:6]]
        statements = [accounts.statement(account_id, limit=200).items for account_id in ids[:6]]
        assert list(find_problems(db)) == []
        ends.append(comparable([outcomes, balances, statements], ids))
        shelf.put_back(db)
    assert ends[0] == ends[1]


def test_a_refused_transfer_refuses_only_itself(accounts: Accounts) -> None:
    ids = opened(accounts)
    outcomes = accounts.transfer_many(made(ids, [(0, 1, 101, ""), (0, 1, 100, "all"), (0, 1, 1, ""), (1, 0, 120, "")]))
    assert [outcome["refused"]["code"] for outcome in outcomes if "refused" in outcome] == ["insufficient-funds"] * 2
    assert outcomes[0]["refused"]["details"] == {"account_id": ids[0]}
    assert outcomes[1]["transfer"]["memo"] == "all"
    assert [accounts.get(account_id)["balance"] for account_id in ids[:2]] == [120, 0]
    assert "order" not in outcomes[1]["transfer"]


def test_a_key_moves_many_once_and_returns_equal_outcomes(accounts: Accounts, ledger_db: Db) -> None:
    ids = opened(accounts)
    wanted = made(ids, [(0, 1, 60, ""), (0, 1, 60, ""), (0, 6, 1, "")])
    first = accounts.transfer_many(wanted, key="payroll")
    before = snapshot(ledger_db)
    assert accounts.transfer_many(wanted, key="payroll") == first
    assert snapshot(ledger_db) == before
    with pytest.raises(KeyReused):
        accounts.transfer_many(wanted[:2], key="payroll")


def test_as_many_as_allowed_and_none(accounts: Accounts) -> None:
    ids = opened(accounts)
    assert accounts.transfer_many([]) == []
    outcomes = accounts.transfer_many(made(ids, [(0, 1, 1, "x" * 500), (1, 0, 1, "")] * (MAX_TRANSFERS // 2)), key="k")
    assert all("transfer" in outcome for outcome in outcomes)
    assert accounts.get(ids[0])["balance"] == 100
    assert accounts.statement(ids[0], limit=200).items[0]["amount"] == 1


BAD: list[tuple[Any, str]] = [
    ({"src": "a", "dst": "b", "amount": 1.5}, "transfers[1].amount"),
    ({"src": "a", "dst": "b", "amount": 0}, "transfers[1].amount"),
    ({"src": "a", "dst": "b"}, "transfers[1].amount"),
    ({"src": "a", "dst": "a", "amount": 1}, "transfers[1].dst"),
    ({"src": {"$gt": ""}, "dst": "a", "amount": 1}, "transfers[1].src"),
    ({"src": "a", "dst": "b", "amount": 1, "memo": "x" * 501}, "transfers[1].memo"),
    ({"src": "a", "dst": "b", "amount": 1, "note": ""}, "transfers[1]"),
    (("a", "b", 1), "transfers[1]"),
]


@pytest.mark.parametrize(("bad", "field"), BAD, ids=[field for _, field in BAD])
def test_bad_input_is_named_and_changes_nothing(accounts: Accounts, ledger_db: Db, bad: Any, field: str) -> None:
    ids = opened(accounts)
    before = snapshot(ledger_db)
    with pytest.raises(Invalid) as caught:
        accounts.transfer_many([*made(ids, [(0, 1, 5, "")]), bad])
    assert caught.value.details["field"] == field
    assert caught.value.message.startswith("transfers[1]")
    assert snapshot(ledger_db) == before


@pytest.mark.parametrize("bad", [None, "ab", {"src": "a"}, [{}] * (MAX_TRANSFERS + 1)], ids=lambda bad: str(bad)[:9])
def test_what_is_no_list_of_transfers_is_refused(accounts: Accounts, bad: Any) -> None:
    with pytest.raises(Invalid, match=r"^transfers must"):
        accounts.transfer_many(bad)


def test_a_damaged_account_refuses_only_its_own_transfers(accounts: Accounts, ledger_db: Db) -> None:
    ids = opened(accounts)
    ledger_db["ledger.accounts"].update_one(
        {"_id": ids[2]}, {"$set": {"balance": "x"}}, bypass_document_validation=True
    )
    ledger_db["ledger.accounts"].update_one(
        {"_id": ids[4]}, {"$unset": {"currency": 1}}, bypass_document_validation=True
    )
    outcomes = accounts.transfer_many(made(ids, [(2, 0, 1, ""), (0, 2, 1, ""), (0, 4, 1, ""), (0, 1, 1, "")]))
    codes = [outcome["refused"]["code"] for outcome in outcomes if "refused" in outcome]
    assert codes == ["insufficient-funds", "balance-limit", "unknown-account"]
    assert "transfer" in outcomes[3]


def test_accounts_are_returned_without_fields_of_transactions(accounts: Accounts, ledger_db: Db) -> None:
    """Accounts whose balance stays the same are written too."""
    ids = opened(accounts)
    accounts.transfer_many(made(ids, [(0, 1, 5, ""), (1, 0, 5, ""), (2, 0, 5, "")]))
    assert ledger_db["ledger.accounts"].count_documents({"txn_checks": {"$exists": True}}) == 3
    closed = accounts.close(ids[2])
    for account in (accounts.get(ids[0]), closed, *accounts.all().items):
        assert not any(name.startswith("txn") for name in account)


def test_money_is_kept_while_many_and_single_transfers_and_closings_compete(ledger_db: Db) -> None:
    accounts = Accounts(ledger_db)
    ids = [accounts.open("EUR", opening)["_id"] for opening in (300, 300, 300, 0, 0, 0)]

    def act(number: int) -> None:
        rng = random.Random(number)
        moves = [(*rng.sample(range(6), 2), rng.randint(1, 40), "") for _ in range(rng.choice([1, 10, 40]))]
        first = made(ids, moves)[0]
        try:
            if number % 3:
                accounts.transfer_many(made(ids, moves))
            elif number % 2:
                accounts.transfer(first["src"], first["dst"], first["amount"])
            else:
                accounts.close(ids[rng.randint(3, 5)])
        except Conflict:
            return

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(act, range(60)))
    assert accounts.total("EUR") == 900
    assert list(find_problems(ledger_db)) == []
    for account_id in ids:
        assert min(balances_after(oldest_first(accounts, account_id)), default=0) >= 0


def test_two_batches_that_decide_from_each_others_accounts_have_an_order(ledger_db: Db, mongod: Embedded) -> None:
    """Each would lift the other's refusal: no order of them refuses both."""
    accounts = Accounts(ledger_db)
    ids = [accounts.open("EUR", opening)["_id"] for opening in (0, 0, 10, 10, 0, 0)]
    first, second = made(ids, [(0, 4, 10, ""), (2, 1, 10, "")]), made(ids, [(1, 5, 10, ""), (3, 0, 10, "")])
    refused = []

    def decide(accounts: Accounts, transfers: list[NewTransfer]) -> None:
        refused.append("refused" in accounts.transfer_many(transfers)[0])

    with meanwhile(mongod, ledger_db, lambda: decide(accounts, second), "update", "ledger.accounts") as db:
        decide(Accounts(db), first)
    assert refused == [True, False]


def test_no_money_leaves_a_closed_account(accounts: Accounts, ledger_db: Db) -> None:
    """Closed accounts are empty, unless the database is damaged."""
    ids = opened(accounts)
    ledger_db["ledger.accounts"].update_one({"_id": ids[0]}, {"$set": {"closed_at": utcnow()}})
    outcome = accounts.transfer_many(made(ids, [(0, 1, 5, "")]))[0]
    assert outcome["refused"]["code"] == "account-closed"
    assert accounts.get(ids[0])["balance"] == 100


def test_a_two_phase_ledger_refuses_many_transfers_in_a_sentence(ledger_db: Db) -> None:
    accounts = Accounts(ledger_db, transactions=TwoPhase(ledger_db))
    ids = opened(accounts)
    with pytest.raises(Conflict, match="a two-phase ledger cannot do this"):
        accounts.transfer_many(made(ids, [(0, 1, 5, "")]))
