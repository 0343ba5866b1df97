"""Concurrent operations of two systems that one transaction changes together."""

from __future__ import annotations

from squinney import ledger
from squinney.game import World
from squinney.ledger import Accounts
from squinney.mongo.schema import Db
from squinney.service.town.welcome import PLAY_MONEY
from tests.crash import cases_links as links
from tests.explore.scene import Act, Scene

State = dict[str, str]


def _shop(db: Db) -> State:
    """Add a member with an order and a cart, and money for one more cart and a half."""
    state = links.member_with_order(db)
    cart = links.carts(db).new(customer="ada")["_id"]
    links.carts(db).add_item(cart, "film", 1)
    return {**state, "order": state["cart"], "cart": cart}


def _buy_with(key: str) -> Act:
    return lambda db, state: links.payments(db).pay(state["cart"], state["account"], owner="ada", key=key)


ORDERS: dict[str, Act] = {
    "buy": _buy_with("k2"),
    "buy by another key": _buy_with("k3"),
    "check out by card": lambda db, state: links.carts(db).checkout(state["cart"], key="card"),
    "more": lambda db, state: links.carts(db).set_quantity(state["cart"], "film", 3),
    "abandon": lambda db, state: links.carts(db).abandon(state["cart"]),
    "cancel": lambda db, state: links.orders(db).cancel(state["order"]),
    "spend": lambda db, state: Accounts(db).transfer(state["account"], state["other"], 600),
}


def _with_other(db: Db) -> State:
    return {**_shop(db), "other": Accounts(db).open("EUR", owner="other")["_id"]}


def _fund_with(key: str) -> Act:
    return lambda db, account: links.fund(db, account, key)


ADS: dict[str, Act] = {
    "fund": _fund_with("k"),
    "fund by another key": _fund_with("k2"),
    "end": lambda db, account: links.network(db).deactivate("c"),
    "close": lambda db, account: Accounts(db).close(account),
}


GIFTS: dict[str, Act] = {
    "greet": links.greet,
    "greet in another tab": links.greet,
    "another takes the name": lambda db, state: World(db).create_character("Ada", location="hall", owner="bob"),
}


def _greeted(db: Db, state: None) -> None:
    links.greet(db)
    assert [item["balance"] for item in Accounts(db).owned_by("ada").items] == [PLAY_MONEY]
    assert len(World(db).owned_by("ada").items) == 1


SCENES = [
    Scene(
        "gifts to a newcomer",
        "game",
        links.demo,
        GIFTS,
        composed=["greet", "greet in another tab"],
        check=_greeted,
        also=ledger.COLLECTIONS,
    ),
    Scene(
        "orders, paid from an account",
        "commerce",
        _with_other,
        ORDERS,
        composed=["check out by card"],
        check=lambda db, state: links.each_order_is_paid_once(db, state),
        also=ledger.COLLECTIONS,
    ),
    Scene(
        "ads, paid from an account",
        "ads",
        links.advertiser,
        ADS,
        check=links.each_funding_is_paid_once,
        also=ledger.COLLECTIONS,
    ),
]
