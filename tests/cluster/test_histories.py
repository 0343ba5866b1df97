"""Accounts, stock, carts and sequences while the primary of three goes away: each key's history is linearizable."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from tests.losses import kill, pause, step_down
from tests.sizes import a_tenth_of, heavy, todays

from squinney import commerce, ledger, transactions
from squinney.commerce import Carts, Catalog, InadequateInventory, Inventory, TestGateway, UnknownLine
from squinney.errors import Conflict, Unavailable
from squinney.ledger import Accounts, InsufficientFunds
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db
from squinney.patterns import sequences
from squinney.patterns.ids import new_id
from squinney.patterns.sequences import Sequences
from squinney.testing.histories import Effect, History, amount, register, sequence
from squinney.testing.replica_set import ReplicaSet
from squinney.transactions import Transactions

pytestmark = [pytest.mark.cluster, heavy, pytest.mark.timeout(240)]

OPENING = 60
STOCK = 40
CARTS = 30  # one is used up by each outcome that is not known
MAX_SECONDS = 60
PRICING = {"list": 2_000, "retail": 1_500, "currency": "EUR"}


@pytest.fixture
def db(replica_set: ReplicaSet) -> Iterator[Db]:
    """One client for all threads: it never goes back to a primary that it knows to be a former one."""
    with client_for(replica_set.uri, serverSelectionTimeoutMS=30_000) as client:
        db = client["histories"]
        schema.apply(
            db, [*transactions.COLLECTIONS, *ledger.COLLECTIONS, *commerce.COLLECTIONS, *sequences.COLLECTIONS]
        )
        yield db
        client.drop_database("histories")


class Load:
    """Threads that each do one thing again and again, in one history, until they are told to stop."""

    def __init__(self, db: Db) -> None:
        runs = Transactions(db, timeout_seconds=5)
        self.history, self.stop = History(), threading.Event()
        self.ledger, self.sequences = Accounts(db, transactions=runs), Sequences(db)
        self.carts = Carts(db, payments=TestGateway(db), transactions=runs)
        self.stock = Inventory(db, transactions=runs)
        self.accounts = [self.ledger.open("EUR", OPENING)["_id"] for _ in range(2)]
        for sku in ("film", "book"):
            Catalog(db).add({"_id": sku, "type": "Film", "title": sku, "pricing": PRICING})
        self.stock.receive("film", STOCK)
        self.stock.receive("book", 1_000)
        self.empty_carts = [self.carts.new()["_id"] for _ in range(CARTS)]
        self.held: dict[str, int] = {}
        self.cart = self.carts.new()["_id"]
        self.carts.add_item(self.cart, "book", 1)

    def transfer(self, chance: random.Random) -> None:
        src, dst = chance.sample(self.accounts, 2)
        money = chance.randint(1, OPENING)
        effects = Effect(src, "take", money), Effect(dst, "give", money)
        with self.history.call(*effects, refused={InsufficientFunds: src}):
            self.ledger.transfer(src, dst, money)

    def transfer_once(self, chance: random.Random) -> None:
        """Under a key, by which it is repeated until its outcome is known."""
        src, dst = chance.sample(self.accounts, 2)
        money, key = chance.randint(1, OPENING), new_id()
        effects = Effect(src, "take", money), Effect(dst, "give", money)
        with self.history.call(*effects, refused={InsufficientFunds: src}):
            while True:
                try:
                    self.ledger.transfer(src, dst, money, key=key)
                    return
                except Unavailable as error:
                    if not error.outcome_unknown or self.stop.is_set():
                        raise

    def reserve_and_return(self, chance: random.Random) -> None:
        """In a cart of its own; one of which it is not known how much it holds is left alone."""
        cart, qty = self.empty_carts.pop(), chance.randint(1, STOCK)
        with self.history.call(Effect("film", "take", qty), refused={InadequateInventory: "film"}) as last:
            self.carts.add_item(cart, "film", qty)
        if last.outcome == "ok":
            with self.history.call(Effect("film", "give", qty)) as last, self.missing_line(cart, qty):
                self.carts.remove_item(cart, "film")
            if last.outcome == "ok":
                self.empty_carts.append(cart)
        elif last.outcome != "unknown":
            self.empty_carts.append(cart)

    @contextmanager
    def missing_line(self, cart: str, qty: int) -> Iterator[None]:
        """A line that was put there and is not seen in a change of primary must be there in the end."""
        try:
            yield
        except UnknownLine as error:
            self.held[cart] = qty
            raise Conflict("nothing was changed") from error

    def set_line(self, chance: random.Random) -> None:
        qty = chance.randint(1, 20)
        with self.history.call(Effect("line", "write", qty)):
            self.carts.set_quantity(self.cart, "book", qty)

    def take_numbers(self, chance: random.Random) -> None:
        with self.history.call(Effect("numbers", "take")) as call:
            call.answer = self.sequences.take("numbers", chance.randint(1, 10))

    def read(self, chance: random.Random) -> None:
        account = chance.choice(self.accounts)
        with self.history.call(Effect(account, "read")) as call:
            call.answer = self.ledger.get(account)["balance"]
        with self.history.call(Effect("film", "read")) as call:
            call.answer = self.stock.level("film")["qty"]
        with self.history.call(Effect("line", "read")) as call:
            call.answer = self.carts.get(self.cart)["items"][0]["qty"]

    def repeat(self, act: Callable[[random.Random], None], seed: int) -> None:
        chance = random.Random(seed)
        try:
            while not self.stop.is_set():
                act(chance)
        finally:
            self.stop.set()  # one that fails ends all

    def wait_for(self, more: int) -> None:
        """Until each key has seen so many more calls, not counting reads."""
        keys = [*self.accounts, "film", "line", "numbers"]
        goals = {key: self._calls(key) + more for key in keys}
        deadline = time.monotonic() + MAX_SECONDS
        while any(self._calls(key) < goal for key, goal in goals.items()) and not self.stop.is_set():
            assert time.monotonic() < deadline, f"the load does not get on: {goals}"
            time.sleep(0.05)

    def _calls(self, key: str) -> int:
        return sum(call.action != "read" for call in self.history.calls.get(key, []))

    def check(self) -> None:
        for account in self.accounts:
            self.history.check(account, amount, OPENING)
        self.history.check("film", amount, STOCK)
        self.history.check("line", register, 1)
        self.history.check("numbers", sequence, 0)
        assert {cart: self.carts.get(cart)["items"][0]["qty"] for cart in self.held} == self.held


@pytest.mark.parametrize("loss", todays([kill, step_down, pause], of=3), ids=lambda loss: loss.__name__)
def test_each_keys_history_is_linearizable(replica_set: ReplicaSet, db: Db, loss: Callable[[ReplicaSet], None]) -> None:
    load, calls = Load(db), a_tenth_of(200)
    acts = [load.transfer, load.transfer_once, load.reserve_and_return, load.reserve_and_return]
    acts += [load.set_line, load.set_line, load.take_numbers, load.take_numbers, load.read]
    with ThreadPoolExecutor(len(acts)) as pool:
        work = [pool.submit(load.repeat, act, seed) for seed, act in enumerate(acts)]
        try:
            load.wait_for(calls)
            with load.history.lapse():
                loss(replica_set)
                load.sequences.take("after", 1)  # a majority follows the new primary, and it knows
            load.wait_for(calls)
        finally:
            load.stop.set()
        for future in work:
            future.result()
    load.check()
