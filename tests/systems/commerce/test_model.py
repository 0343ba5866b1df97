"""Compares random histories of the shop with a simple model."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from pymongo import MongoClient
from tests.sizes import a_tenth_of, heavy
from tests.systems.commerce.conftest import Shop

from squinney import transactions
from squinney.commerce import COLLECTIONS, InadequateInventory, PaymentDeclined, PaymentUnsettled, find_problems
from squinney.mongo import schema
from squinney.mongo.schema import Db, Document

SKUS = ["a", "b"]
UNITS = 6


class Machine(RuleBasedStateMachine):
    """The operations of a shopper, applied to the shop and to a model in memory."""

    made: Callable[[], Db]
    carts = Bundle("carts")

    @initialize()
    def begin(self) -> None:
        self.db = self.made()
        for name in self.db.list_collection_names():
            self.db[name].delete_many({})
        self.shop = Shop(self.db)
        for sku in SKUS:
            self.shop.stock(sku, UNITS)
        self.shelf = dict.fromkeys(SKUS, UNITS)
        self.sold = dict.fromkeys(SKUS, 0)
        self.baskets: dict[str, dict[str, int]] = {}
        self.waiting: dict[str, str] = {}

    @rule(target=carts)
    def new(self) -> str:
        cart_id = self.shop.cart()
        self.baskets[cart_id] = {}
        return cart_id

    @rule(cart_id=carts, sku=st.sampled_from(SKUS), qty=st.integers(1, 4))
    def add(self, cart_id: str, sku: str, qty: int) -> None:
        if cart_id not in self.baskets:
            return
        if qty > self.shelf[sku]:
            with pytest.raises(InadequateInventory):
                self.shop.carts.add_item(cart_id, sku, qty)
            return
        self.shop.carts.add_item(cart_id, sku, qty)
        self.shelf[sku] -= qty
        self.baskets[cart_id][sku] = self.baskets[cart_id].get(sku, 0) + qty

    @rule(cart_id=carts, sku=st.sampled_from(SKUS), qty=st.integers(0, 5))
    def set(self, cart_id: str, sku: str, qty: int) -> None:
        basket = self.baskets.get(cart_id, {})
        if sku not in basket:
            return
        more = qty - basket[sku]
        if more > self.shelf[sku]:
            with pytest.raises(InadequateInventory):
                self.shop.carts.set_quantity(cart_id, sku, qty)
            return
        self.shop.carts.set_quantity(cart_id, sku, qty)
        self.shelf[sku] -= more
        basket[sku] = qty
        if not qty:
            del basket[sku]

    @rule(cart_id=carts, ending=st.sampled_from(["capture", "decline", "timeout", "capture-then-timeout"]))
    def check_out(self, cart_id: str, ending: Any) -> None:
        if not self.baskets.get(cart_id):
            return
        self.shop.gateway.behaviour = ending
        errors = {"decline": PaymentDeclined, "timeout": PaymentUnsettled, "capture-then-timeout": PaymentUnsettled}
        if ending in errors:
            with pytest.raises(errors[ending]):
                self.shop.carts.checkout(cart_id, key="k")
        else:
            self.shop.carts.checkout(cart_id, key="k")
        if ending == "capture":
            self._sell(cart_id)
        elif ending != "decline":
            self.waiting[cart_id] = ending
            self.held = self.baskets.pop(cart_id)
            self.baskets_waiting = {**getattr(self, "baskets_waiting", {}), cart_id: self.held}

    def _sell(self, cart_id: str) -> None:
        for sku, qty in self.baskets.pop(cart_id).items():
            self.sold[sku] += qty

    @rule()
    def settle(self) -> None:
        self.shop.clock.pass_seconds(61)
        self.shop.carts.settle_payments(60)
        for cart_id, ending in self.waiting.items():
            self.baskets[cart_id] = self.baskets_waiting.pop(cart_id)
            if ending == "capture-then-timeout":
                self._sell(cart_id)
        self.waiting = {}

    @rule(cart_id=consumes(carts))
    def abandon(self, cart_id: str) -> None:
        if cart_id not in self.baskets:
            return
        self.shop.carts.abandon(cart_id)
        for sku, qty in self.baskets.pop(cart_id).items():
            self.shelf[sku] += qty

    @rule()
    def clean_up(self) -> None:
        self.shop.clock.pass_seconds(10_000)
        self.shop.carts.expire_carts(9_000)
        self.shop.carts.return_orphans(9_000)
        for basket in self.baskets.values():
            for sku, qty in basket.items():
                self.shelf[sku] += qty
        self.baskets = {}

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "shop"):
            return
        for sku in SKUS:
            held = [*self.baskets.values(), *getattr(self, "baskets_waiting", {}).values()]
            carted = sum(basket.get(sku, 0) for basket in held)
            assert self.shop.level(sku) == (self.shelf[sku], carted, self.sold[sku])
        for cart_id, basket in self.baskets.items():
            assert self.shop.lines(cart_id) == basket

    def teardown(self) -> None:
        problems = [problem for problem in find_problems(self.db) if problem.code != "stalled-payment"]
        assert problems == [], "but for attempts left open, which the shop's clock has begun long ago"
        captured = self.db["commerce.payments"].count_documents({"state": "captured"})
        charged = self.db["commerce.test_charges"].count_documents({"state": "captured"})
        unanswered = sum(ending == "capture-then-timeout" for ending in getattr(self, "waiting", {}).values())
        assert captured == self.db["commerce.orders"].count_documents({}) == charged - unanswered


@pytest.fixture
def machine_db(client: MongoClient[Document]) -> Iterator[Db]:
    """A database that the state machine uses repeatedly."""
    db = client[f"test_model_{secrets.token_hex(8)}"]
    schema.apply(db, [*transactions.COLLECTIONS, *COLLECTIONS])
    yield db
    client.drop_database(db.name)


@heavy
@pytest.mark.timeout(600)
def test_random_histories_agree_with_a_plain_model(machine_db: Db) -> None:
    # Behind a function: Hypothesis looks for marks on every attribute, and a database has any attribute there is.
    machine = type("Shopping", (Machine,), {"made": staticmethod(lambda: machine_db)})
    limits = settings(
        max_examples=a_tenth_of(150),
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(machine, settings=limits)
