"""The caller's own steps happen with an operation of the ledger, or neither does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.systems.ledger.test_accounts import snapshot

from squinney.errors import Conflict, SquinneyError
from squinney.ledger import Accounts, InsufficientFunds, find_problems
from squinney.mongo.schema import Db
from squinney.transactions import AlreadyExists, KeyReused, Step

Operation = Callable[..., Any]


class AlreadyPaid(Conflict):
    """The invoice is paid."""


def paying(invoice: int = 7) -> Step:
    return Step("invoices", invoice, guard={"paid": False}, update={"$set": {"paid": True}}, refused=AlreadyPaid)


@pytest.fixture(params=["transfer", "transfer_many", "open"])
def operation(request: pytest.FixtureRequest, accounts: Accounts) -> Operation:
    """An operation that moves or brings in 10, with further arguments."""
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    each: dict[str, Operation] = {
        "transfer": lambda **more: accounts.transfer(ada, ben, 10, **more),
        "transfer_many": lambda **more: accounts.transfer_many([{"src": ada, "dst": ben, "amount": 10}], **more),
        "open": lambda **more: accounts.open("EUR", 10, **more),
    }
    return each[request.param]


@pytest.fixture
def invoices(ledger_db: Db) -> Any:
    """Two open invoices."""
    ledger_db["invoices"].insert_many([{"_id": 7, "paid": False}, {"_id": 8, "paid": False}])
    return ledger_db["invoices"]


def is_paid(invoices: Any, invoice: int) -> bool:
    return bool(invoices.find_one({"_id": invoice})["paid"])


def test_both_happen(operation: Operation, invoices: Any, ledger_db: Db) -> None:
    before = len(snapshot(ledger_db)[1])
    operation(also=[paying(7), Step("receipts", "r7", insert={"invoice": 7})])
    assert is_paid(invoices, 7)
    assert ledger_db["receipts"].count_documents({"invoice": 7}) == 1
    assert len(snapshot(ledger_db)[1]) > before
    assert list(find_problems(ledger_db)) == []


REFUSED = [
    ([paying(7), paying(9)], AlreadyPaid),
    ([paying(7), Step("invoices", 8, guard={"paid": True})], Conflict),
    ([paying(7), Step("invoices", 8, insert={"paid": False})], AlreadyExists),
    ([paying(7), Step("invoices", 9, delete=True, refused=AlreadyPaid)], AlreadyPaid),
    ([Step("invoices", 7, delete=True), Step("invoices", 9, delete=True, refused=AlreadyPaid)], AlreadyPaid),
    ([Step("invoices", number, update={"$set": {"a": 1}}) for number in (7, 9, 8)], Conflict),
]


@pytest.mark.parametrize(("also", "error"), REFUSED, ids=range(len(REFUSED)))
def test_a_refusal_of_a_further_step_refuses_all(
    operation: Operation, invoices: Any, ledger_db: Db, also: list[Step], error: type[SquinneyError]
) -> None:
    before, stored = snapshot(ledger_db), list(invoices.find())
    with pytest.raises(error):
        operation(also=also, key="once")
    assert (snapshot(ledger_db), list(invoices.find())) == (before, stored)
    operation(also=[paying()], key="once")  # the refusal freed the key
    assert is_paid(invoices, 7)


def test_the_refusing_step_is_the_one_named(operation: Operation, invoices: Any) -> None:
    """The first step's guard no longer matches after its own change; it is not what refuses."""
    also = [paying(7), Step("invoices", 8, guard={"paid": True}, update={"$set": {"sent": True}})]
    with pytest.raises(Conflict, match="invoices 8 does not match"):
        operation(also=also)


def test_a_refused_transfer_does_not_pay(accounts: Accounts, invoices: Any) -> None:
    ada, ben = accounts.open("EUR", 5)["_id"], accounts.open("EUR")["_id"]
    with pytest.raises(InsufficientFunds):
        accounts.transfer(ada, ben, 10, also=[paying()])
    assert not is_paid(invoices, 7)


def test_a_repeat_with_the_key_does_neither_again(operation: Operation, invoices: Any, ledger_db: Db) -> None:
    first = operation(also=[paying(7)], key="once")
    before = snapshot(ledger_db)
    assert operation(also=[paying(7)], key="once") == first
    assert operation(also=[paying(8)], key="once") == first
    assert snapshot(ledger_db) == before
    assert not is_paid(invoices, 8)


def test_another_transfer_with_the_key_is_refused(accounts: Accounts, invoices: Any) -> None:
    ada, ben = accounts.open("EUR", 50)["_id"], accounts.open("EUR")["_id"]
    accounts.transfer(ada, ben, 10, also=[paying(7)], key="once")
    with pytest.raises(KeyReused):
        accounts.transfer(ada, ben, 11, also=[paying(8)], key="once")
    assert not is_paid(invoices, 8)


def test_a_step_on_an_account_of_the_operation_is_an_error(accounts: Accounts, ledger_db: Db) -> None:
    ada, ben = accounts.open("EUR", 50)["_id"], accounts.open("EUR")["_id"]
    before = snapshot(ledger_db)
    own = [Step("ledger.accounts", ada, update={"$inc": {"balance": 5}})]
    for attempt in (
        lambda: accounts.transfer(ada, ben, 10, also=own),
        lambda: accounts.transfer_many([{"src": ada, "dst": ben, "amount": 10}], also=own),
    ):
        with pytest.raises(ValueError, match="one step per document"):
            attempt()
    assert snapshot(ledger_db) == before


def test_one_of_many_pays_an_invoice(operation: Operation, invoices: Any, ledger_db: Db) -> None:
    """Each pays it together with its own transfer; the transfers of the others do not happen."""
    before = len(snapshot(ledger_db)[1])

    def pay(_: int) -> bool:
        try:
            operation(also=[paying()])
        except AlreadyPaid:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(pay, range(16))) == 1
    assert len(snapshot(ledger_db)[1]) - before in (1, 2)
    assert list(find_problems(ledger_db)) == []
