"""Further steps of a checkout: they happen with the sale, or the buyer has the money back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.notes import NOTES, Signed, put_note, sign, signed_by
from tests.systems.commerce.conftest import Shop
from tests.systems.commerce.test_checkout import charges, require_paired, states

from squinney.commerce import Carts, PaymentDeclined, PaymentRefunded, PaymentUnsettled, TestGateway, find_problems
from squinney.mongo.schema import Db
from squinney.transactions import Step


class Meanwhile(TestGateway):
    """A provider that takes its time: something happens before it has charged."""

    def __init__(self, db: Db, happens: Callable[[], object]) -> None:
        super().__init__(db)
        self._happens = happens

    def capture(self, *args: Any, **kwargs: Any) -> Any:
        self._happens()
        return super().capture(*args, **kwargs)


@pytest.fixture
def cart_id(shop: Shop) -> str:
    put_note(shop.db)
    shop.stock("film", 5)
    return shop.cart(film=2)


def _reopened_and_refunded(shop: Shop, cart_id: str) -> bool:
    require_paired(shop)
    assert list(find_problems(shop.db)) == []
    return (shop.carts.get(cart_id)["status"], charges(shop), shop.level("film")) == (
        "active",
        {"refunded": 1},
        (3, 2, 0),
    )


def test_they_happen_once_and_a_repeat_returns_the_order(shop: Shop, cart_id: str) -> None:
    order = shop.carts.checkout(cart_id, key="k", also=sign("me"))
    assert shop.carts.checkout(cart_id, key="k", also=sign("another")) == order
    assert signed_by(shop.db) == "me"
    assert "also" not in {*order, *shop.carts.payments_of(cart_id)[0], *shop.carts.settle(f"{cart_id}:1")}


def test_a_refused_step_is_noticed_before_the_charge(shop: Shop, cart_id: str) -> None:
    shop.db[NOTES].update_one({}, {"$set": {"by": "bob"}})
    with pytest.raises(Signed):
        shop.carts.checkout(cart_id, key="k", also=sign("me"))
    assert (charges(shop), states(shop, cart_id), shop.carts.get(cart_id)["status"]) == ({}, [], "active")


def test_they_do_not_happen_if_the_payment_is_declined(shop: Shop, cart_id: str) -> None:
    shop.gateway.behaviour = "decline"
    with suppress(PaymentDeclined):
        shop.carts.checkout(cart_id, key="k", also=sign("me"))
    assert signed_by(shop.db) is None


def test_they_happen_when_a_job_completes_the_checkout(shop: Shop, cart_id: str) -> None:
    shop.gateway.behaviour = "capture-then-timeout"
    with suppress(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k", also=sign("me"))
    assert signed_by(shop.db) is None
    shop.clock.pass_seconds(100)
    assert shop.carts.settle_payments(60) == {"captured": 1}
    assert (signed_by(shop.db), shop.carts.get(cart_id)["status"]) == ("me", "complete")


@pytest.mark.parametrize("how", ["signed", "gone", "invalid", "inserted"])
def test_a_step_that_refuses_after_the_charge_gives_the_money_back(shop: Shop, cart_id: str, how: str) -> None:
    note = shop.db[NOTES]
    also = [Step(NOTES, "new", insert={"by": "me"})] if how == "inserted" else sign("me")
    happens: dict[str, Callable[[], object]] = {
        "signed": lambda: note.update_one({}, {"$set": {"by": "bob"}}),
        "gone": lambda: note.delete_one({}),
        "invalid": lambda: shop.db.command("collMod", NOTES, validator={"by": {"$ne": "me"}}),
        "inserted": lambda: note.insert_one({"_id": "new", "by": "bob"}),
    }
    slow = Carts(shop.db, payments=Meanwhile(shop.db, happens[how]), clock=shop.clock)
    with pytest.raises(PaymentRefunded, match=r"further step was refused|the server rejects"):
        slow.checkout(cart_id, key="k", also=also)
    assert _reopened_and_refunded(shop, cart_id)
    assert note.count_documents({"by": "me"}) == 0
    assert shop.carts.checkout(cart_id, key="k2")["status"] == "placed"


def test_the_money_is_given_back_by_a_job_too(shop: Shop, cart_id: str) -> None:
    shop.gateway.behaviour = "capture-then-timeout"
    with suppress(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k", also=sign("me"))
    shop.db[NOTES].update_one({}, {"$set": {"by": "bob"}})
    shop.clock.pass_seconds(100)
    assert shop.carts.settle_payments(60) == {"refunded": 1}
    assert _reopened_and_refunded(shop, cart_id)


def test_a_step_on_a_document_of_the_shop_is_an_error_before_the_charge(shop: Shop, cart_id: str) -> None:
    for name in ("commerce.stock", "commerce.orders", "commerce.carts", "commerce.payments"):
        with pytest.raises(ValueError, match=f"must not be on {name}: the operation itself changes"):
            shop.carts.checkout(cart_id, key="k", also=[Step(name, "film", update={"$set": {"a": 1}})])
    assert charges(shop) == {}
