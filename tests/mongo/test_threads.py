"""Operations called from an event loop: they run in threads, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest
from pymongo import AsyncMongoClient

import squinney
from squinney import ledger
from squinney.errors import Invalid
from squinney.ledger import Accounts, InsufficientFunds
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.threads import MAX_THREADS
from squinney.transactions import Key


@pytest.fixture
def accounts(db: Db) -> Accounts:
    squinney.prepare(db, ledger)
    return Accounts(db)


def test_the_loop_goes_on_while_an_operation_waits() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def wait(name: str) -> str:
        begun.set()
        assert may_end.wait(120)
        return f"{name} in {threading.current_thread().name}"

    async def main() -> str:
        call = asyncio.ensure_future(squinney.in_thread(wait, "transfer"))
        while not begun.is_set():
            await asyncio.sleep(0)
        for _ in range(1_000):  # a blocked loop would never get here
            await asyncio.sleep(0)
        assert not call.done()
        may_end.set()
        return await call

    assert asyncio.run(main()).startswith("transfer in squinney")


def test_a_result_and_a_refusal_come_out_as_they_are(accounts: Accounts) -> None:
    ada, bob = (accounts.open("EUR", 100)["_id"] for _ in range(2))

    async def main() -> None:
        moved = await squinney.in_thread(accounts.transfer, ada, bob, 70, key=Key("1", "ada"))
        assert moved["amount"] == 70
        with pytest.raises(InsufficientFunds):
            await squinney.in_thread(accounts.transfer, ada, bob, 70)

    asyncio.run(main())
    assert accounts.get(bob)["balance"] == 170


def test_a_cancelled_call_runs_to_its_end_and_its_key_tells_the_outcome(accounts: Accounts) -> None:
    ada, bob = (accounts.open("EUR", 100)["_id"] for _ in range(2))
    begun, ended = threading.Event(), threading.Event()

    def transfer() -> object:
        begun.set()
        try:
            return accounts.transfer(ada, bob, 70, key=Key("1", "ada"))
        finally:
            ended.set()

    async def main() -> object:
        call = asyncio.ensure_future(squinney.in_thread(transfer))
        while not begun.is_set():
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ended.wait(120)
        return await squinney.in_thread(accounts.transfer, ada, bob, 70, key=Key("1", "ada"))

    asyncio.run(main())
    assert (accounts.get(ada)["balance"], accounts.get(bob)["balance"]) == (30, 170)


def test_many_calls_wait_for_a_thread_and_all_run() -> None:
    running: list[int] = []
    most, lock = [0], threading.Lock()

    def count(number: int) -> int:
        with lock:
            running.append(number)
            most[0] = max(most[0], len(running))
        threading.Event().wait(0.01)
        with lock:
            running.remove(number)
        return number

    async def main() -> list[int]:
        return await asyncio.gather(*(squinney.in_thread(count, number) for number in range(3 * MAX_THREADS)))

    assert asyncio.run(main()) == [*range(3 * MAX_THREADS)]
    assert most[0] <= MAX_THREADS


def test_context_variables_reach_the_function() -> None:
    person: ContextVar[str] = ContextVar("person")

    async def main() -> str:
        person.set("ada")
        return await squinney.in_thread(person.get)

    assert asyncio.run(main()) == "ada"


def test_an_asynchronous_database_says_what_to_do(mongod: Embedded) -> None:
    async def main() -> None:
        async with AsyncMongoClient[dict[str, object]](mongod.uri) as client:
            for given in (client, client["shop"]):
                with pytest.raises(Invalid, match=r"await squinney\.in_thread"):
                    Accounts(given)  # type: ignore[arg-type]

    asyncio.run(main())
