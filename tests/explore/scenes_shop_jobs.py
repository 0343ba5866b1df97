"""The shop's jobs and repairs beside shoppers: carts that end, payments that stall, refunds, and imports."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from squinney import commerce
from squinney.clock import utcnow
from squinney.commerce import (
    JOBS,
    Carts,
    Catalog,
    Inventory,
    Orders,
    PaymentUnsettled,
    TestGateway,
    UnknownPayment,
    UnknownProduct,
)
from squinney.commerce.payments.gateway import Attempt, Charge
from squinney.commerce.payments.test_gateway import Behaviour, ProviderTimeout
from squinney.mongo.schema import Db
from tests.crash.shop import LONG_AGO, age, levels, paired
from tests.explore.scene import Act, Scene
from tests.explore.scenes_commerce import FILM, GONE, on_catalog, stocked


def _carts(db: Db, behaviour: Behaviour = "capture") -> Carts:
    return Carts(db, payments=TestGateway(db, behaviour))


def _orders(db: Db) -> Orders:
    return Orders(db, payments=TestGateway(db))


def _shop(db: Db) -> dict[str, Any]:
    """Add five units of a film: two in one cart, one in another cart."""
    Catalog(db).add(FILM)
    Inventory(db).receive("film", 5)
    mine, theirs = (_carts(db).new()["_id"] for _ in range(2))
    _carts(db).add_item(mine, "film", 2)
    _carts(db).add_item(theirs, "film", 1)
    return {"mine": mine, "theirs": theirs, "payment": f"{mine}:1"}


def _on_carts(change: Callable[[Carts, Any], object]) -> Act:
    return lambda db, state: change(_carts(db), state)


def _on_orders(change: Callable[[Orders, Any], object]) -> Act:
    return lambda db, state: change(_orders(db), state)


def _job(name: str) -> Act:
    job = next(job for job in JOBS if job.name == name)
    return lambda db, state: job.run(db)


def _in_turn(*acts: Act) -> Act:
    def act(db: Db, state: Any) -> None:
        for one in acts:
            one(db, state)

    return act


def _sold_is_paid(db: Db, state: Any) -> None:
    levels(db)
    paired(db)


# ---- carts that end ----


def _idle(db: Db) -> dict[str, Any]:
    """Let one cart be idle for longer than half an hour, after which the job expires it."""
    state = _shop(db)
    then = utcnow() - timedelta(hours=1)
    db["commerce.carts"].update_one({"_id": state["mine"]}, {"$set": {"last_modified": then}})
    db["commerce.reservations"].update_many({}, {"$set": {"at": then}})
    return state


ENDING: dict[str, Act] = {
    "expire": _job("expire-carts"),
    "expire, return orphans": _in_turn(_job("expire-carts"), _job("return-orphans")),
    "abandon": _on_carts(lambda carts, at: carts.abandon(at["mine"])),
    "add": _on_carts(lambda carts, at: carts.add_item(at["mine"], "film", 1)),
    "new by key": _on_carts(lambda carts, at: carts.new(customer="ada", key="k")),
    "check out": _on_carts(lambda carts, at: carts.checkout(at["mine"], key="k")),
}


def _orphaned(db: Db) -> dict[str, Any]:
    """Delete a cart by hand, so that its reservation is left. Each operation ends with the job that returns it."""
    state = _idle(db)
    Inventory(db).receive("film", 5)
    db["commerce.carts"].delete_one({"_id": state["mine"]})
    return state


ORPHANED: dict[str, Act] = {
    "return orphans": _job("return-orphans"),
    "add": _in_turn(_on_carts(lambda carts, at: carts.add_item(at["theirs"], "film", 1)), _job("return-orphans")),
    "adjust": _in_turn(lambda db, at: Inventory(db).adjust("film", -2, "lost"), _job("return-orphans")),
}

# ---- payments that stall ----


def _let_payments_stall(db: Db) -> None:
    """Make payments old enough for the job, but not so old that they are a problem."""
    db["commerce.payments"].update_many({}, {"$set": {"at": utcnow() - timedelta(minutes=2)}})


def _stalled(db: Db) -> dict[str, Any]:
    """Let a checkout time out: its cart is pending, and the provider has not charged."""
    state = _shop(db)
    with suppress(PaymentUnsettled):
        _carts(db, behaviour="timeout").checkout(state["mine"], key="k")
    _let_payments_stall(db)
    return state


def _capture_late(db: Db, state: Any) -> None:
    """Let the provider charge after the checkout has given up, and call the webhook."""
    TestGateway(db).capture(state["payment"], 1_000, "EUR", note=lambda intent: None)
    _carts(db).settle(state["payment"])


def _is_settled_in_the_end(db: Db, state: Any) -> None:
    _carts(db).settle_payments(0)
    assert db["commerce.payments"].count_documents({"state": {"$in": ["started", "refunding"]}}) == 0
    _sold_is_paid(db, state)


STALLED: dict[str, Act] = {
    "settle payments": _job("settle-payments"),
    "capture late": _capture_late,
    "check out": _on_carts(lambda carts, at: carts.checkout(at["mine"], key="k")),
    "abandon": ENDING["abandon"],
}


def _captured_late(db: Db) -> dict[str, Any]:
    """Prepare a charge that came after its cart expired long ago; another cart has most of the goods."""
    state = _stalled(db)
    _carts(db).settle_payments(0)
    _carts(db).abandon(state["mine"])
    _carts(db).add_item(state["theirs"], "film", 3)
    db["commerce.test_charges"].update_one({"_id": state["payment"]}, {"$set": {"state": "captured"}})
    db["commerce.carts"].update_one({"_id": state["mine"]}, {"$set": {"last_modified": LONG_AGO}})
    return state


def _is_sold_refunded_or_forgotten(db: Db, state: Any) -> None:
    with suppress(UnknownPayment):
        _carts(db).settle(state["payment"])
        paired(db)
    levels(db)
    carts = db["commerce.carts"].distinct("_id")
    assert db["commerce.payments"].count_documents({"cart_id": {"$nin": carts}}) == 0, "a payment has no cart any more"


LATE: dict[str, Act] = {
    "settle": _on_carts(lambda carts, at: carts.settle(at["payment"])),
    "forget carts": _job("forget-carts"),
    "theirs remove": _on_carts(lambda carts, at: carts.remove_item(at["theirs"], "film")),
    "theirs add": _on_carts(lambda carts, at: carts.add_item(at["theirs"], "film", 1)),
}

# ---- refunds ----


def _refunded_at_provider(db: Db) -> dict[str, Any]:
    """Prepare a paid order whose money the provider has already returned."""
    state = _shop(db)
    _carts(db).checkout(state["mine"], key="k")
    db["commerce.test_charges"].update_many({}, {"$set": {"state": "refunded"}})
    return state


def _record_refund(orders: Orders, state: Any) -> None:
    payment: Any = {"_id": state["payment"], "cart_id": state["mine"]}
    orders.record_refund(payment)


def _refund(orders: Orders, state: Any) -> None:
    payment: Any = {"_id": state["payment"]}
    orders.refund(payment)


def _counts_are_right(db: Db, state: Any) -> None:
    levels(db)


REFUNDED: dict[str, Act] = {
    "record refund": _on_orders(_record_refund),
    "settle": LATE["settle"],
    "cancel": _on_orders(lambda orders, at: orders.cancel(at["mine"])),
    "delete": _on_orders(lambda orders, at: orders.delete(at["mine"])),
    "place by key": _on_orders(lambda orders, at: orders.place([{"sku": "x", "price": 3, "qty": 2}], key="k")),
}


class _SilentGateway(TestGateway):
    def refund(self, attempt: Attempt) -> Charge:
        raise ProviderTimeout("no response")


def _cancelling(db: Db) -> dict[str, Any]:
    """Cancel an order while the provider does not respond."""
    state = _shop(db)
    _carts(db).checkout(state["mine"], key="k")
    with suppress(PaymentUnsettled):
        Orders(db, payments=_SilentGateway(db)).cancel(state["mine"])
    _let_payments_stall(db)
    return state


CANCELLING: dict[str, Act] = {
    "refund": _on_orders(_refund),
    "settle payments": STALLED["settle payments"],
    "cancel": REFUNDED["cancel"],
    "delete": REFUNDED["delete"],
}


def _lost(db: Db) -> dict[str, Any]:
    """Delete a paid order by hand; the provider has already returned the money."""
    state = _refunded_at_provider(db)
    db["commerce.orders"].delete_one({"_id": state["mine"]})
    return state


LOST: dict[str, Act] = {
    "from cart": _on_orders(lambda orders, at: orders.from_cart(at["mine"])),
    "record refund": REFUNDED["record refund"],
    "settle": LATE["settle"],
    "refund, delete": _in_turn(REFUNDED["record refund"], REFUNDED["delete"]),
}

# ---- imports ----


def _reserve_both(db: Db, state: Any) -> None:
    _carts(db).add_item(state["cart"], "film", 1)
    with suppress(UnknownProduct):
        _carts(db).add_item(state["cart"], "gone", 2)


IMPORTED: dict[str, Act] = {
    "import": on_catalog(lambda catalog: catalog.import_products([json.dumps(GONE)], existing="skip")),
    "import film": on_catalog(
        lambda catalog: catalog.import_products([json.dumps({**FILM, "title": "import"})], existing="replace")
    ),
    "replace": on_catalog(lambda catalog: catalog.replace("film", {**FILM, "title": "new"}, expected_version=1)),
    "patch": on_catalog(lambda catalog: catalog.patch("film", {"title": "patch"})),
    "remove film": on_catalog(lambda catalog: catalog.remove("film")),
    "add gone": on_catalog(lambda catalog: catalog.add(GONE)),
    "reserve both": _reserve_both,
}

SCENES = [
    Scene(
        "carts, repaired",
        "commerce",
        _shop,
        {name: ENDING[name] for name in ("add", "abandon")},
        ignored=["commerce.category_tree"],  # the repair of the tree counts up its version
        check=_sold_is_paid,
        between=[commerce.repair],
    ),
    Scene("carts, ending", "commerce", _idle, ENDING, composed=["check out"], check=_sold_is_paid, age=age),
    Scene("carts, orphaned", "commerce", _orphaned, ORPHANED, check=_sold_is_paid),
    Scene(
        "payments, stalled",
        "commerce",
        _stalled,
        STALLED,
        composed=["settle payments", "capture late", "check out"],
        check=_is_settled_in_the_end,
        age=age,
    ),
    Scene(
        "payments, late",
        "commerce",
        _captured_late,
        LATE,
        composed=["settle", "forget carts"],
        check=_is_sold_refunded_or_forgotten,
        age=age,
    ),
    Scene(
        "orders, refunded",
        "commerce",
        _refunded_at_provider,
        REFUNDED,
        composed=["cancel"],
        check=_counts_are_right,
        age=age,
    ),
    Scene(
        "orders, cancelling",
        "commerce",
        _cancelling,
        CANCELLING,
        composed=["refund", "settle payments", "cancel"],
        check=_is_settled_in_the_end,
        age=age,
    ),
    Scene(
        "orders, lost",
        "commerce",
        _lost,
        LOST,
        composed=["refund, delete"],
        check=_counts_are_right,
        age=age,
    ),
    Scene("products, imported", "commerce", stocked, IMPORTED, composed=["reserve both"]),
]
