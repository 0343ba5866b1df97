"""Crash cases of what one system causes in another: both happen, or neither."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from squinney import ads, ledger
from squinney.ads import AdNetwork
from squinney.commerce import Carts, Catalog, Inventory, Orders, TestGateway
from squinney.game import World
from squinney.ledger import Accounts
from squinney.mongo.schema import Db
from squinney.service.links.ad_payments import INCOME, AdPayments
from squinney.service.links.order_payments import TILL, OrderPayments
from squinney.service.town.parts import MARKS
from squinney.service.town.welcome import PLAY_MONEY, Welcome
from squinney.testing import Case
from tests.crash.shop import PRICING, levels

PRICE = 500


def carts(db: Db) -> Carts:
    """Return carts whose orders are repaid to accounts."""
    return Carts(db, payments=TestGateway(db))


def payments(db: Db) -> OrderPayments:
    """Return the payments from accounts."""
    return OrderPayments(carts(db), Accounts(db))


def orders(db: Db) -> Orders:
    """Return orders that are repaid to the accounts they were paid from."""
    return Orders(db, payments=TestGateway(db), repay=payments(db).repay)


def member_with_cart(db: Db) -> dict[str, str]:
    """Add a film, and a member with 20.00 on an account and two films in a cart; the till is open."""
    Catalog(db).add({"_id": "film", "type": "Film", "title": "film", "pricing": PRICING})
    Inventory(db).receive("film", 10)
    account = Accounts(db).open("EUR", 2_000, owner="ada")["_id"]
    Accounts(db).open("EUR", owner=TILL)
    cart_id = carts(db).new(customer="ada")["_id"]
    carts(db).add_item(cart_id, "film", 2)
    return {"account": account, "cart": cart_id}


def member_with_order(db: Db) -> dict[str, str]:
    """Add a member who has bought two films from an account."""
    state = member_with_cart(db)
    buy(db, state)
    return state


def buy(db: Db, state: dict[str, str]) -> None:
    """Pay for the cart from the member's account."""
    payments(db).pay(state["cart"], state["account"], owner="ada", key="k")


def each_order_is_paid_once(db: Db, state: Any) -> None:
    """Assert that the till has the money of the placed orders, and that statements and orders name each other."""
    accounts = Accounts(db)
    placed = list(db["commerce.orders"].find({"status": "placed"}))
    paid = {payment["_id"]: payment for payment in db["commerce.payments"].find({"paid_from": {"$exists": True}})}
    owed = sum(order["total"] for order in placed if order["payment_id"] in paid)
    assert sum(item["balance"] for item in accounts.owned_by(TILL).items) == owed
    assert accounts.total("EUR") == 2_000
    entries = list(db["ledger.entries"].find({"about": {"$exists": True}}))
    named = [transfer for payment in paid.values() for transfer in payment["transfers"]]
    assert sorted(entry["transfer_id"] for entry in entries) == sorted([*named, *named])
    assert {entry["about"] for entry in entries} == {f"/shop/orders/{one['cart_id']}" for one in paid.values()}
    assert list(ledger.find_problems(db)) == []
    levels(db)


def _bought_once(db: Db, state: dict[str, str]) -> None:
    each_order_is_paid_once(db, state)
    buy(db, state)
    each_order_is_paid_once(db, state)
    assert Accounts(db).get(state["account"])["balance"] == 2_000 - 2 * PRICE
    assert levels(db) == (8, 0, 2)


def _repaid_once(db: Db, state: dict[str, str]) -> None:
    each_order_is_paid_once(db, state)
    for _ in range(2):
        orders(db).cancel(state["cart"])
    each_order_is_paid_once(db, state)
    assert Accounts(db).get(state["account"])["balance"] == 2_000
    assert levels(db) == (10, 0, 0)


# ---- ads ----


def network(db: Db) -> AdNetwork:
    """Return the advertising network."""
    return AdNetwork(db, secret=b"links")


def ad_payments(db: Db) -> AdPayments:
    """Return the payments for ads."""
    return AdPayments(network(db), Accounts(db))


def advertiser(db: Db) -> str:
    """Add an advertiser with 20.00 on an account, and a campaign that waits for its money; return the account."""
    Accounts(db).open("EUR", owner=INCOME)
    budget = {"total": 1_500, "currency": "EUR"}
    network(db).create_campaign(
        "c", "Larch", pricing={"model": "cpm", "bid": 100}, budget=budget, review=True, owner="ada"
    )
    return Accounts(db).open("EUR", 2_000, owner="ada")["_id"]


def fund(db: Db, account: str, key: str = "k") -> None:
    """Pay 10.00 for the campaign."""
    ad_payments(db).pay("c", account, 1_000, owner="ada", key=key)


def each_funding_is_paid_once(db: Db, state: Any) -> None:
    """Assert that the income has what the campaign got, and that statements and fundings name each other."""
    accounts = Accounts(db)
    fundings = list(db["ads.fundings"].find())
    got = sum(funding["amount"] for funding in fundings)
    assert sum(item["balance"] for item in accounts.owned_by(INCOME).items) == got
    assert network(db).get("c")["funded"] == got
    entries = list(db["ledger.entries"].find({"about": "/ads/campaigns/c"}))
    named = [funding["transfer_id"] for funding in fundings]
    assert sorted(entry["transfer_id"] for entry in entries) == sorted([*named, *named])
    assert list(ledger.find_problems(db)) == []


def _funded_once(db: Db, account: str) -> None:
    each_funding_is_paid_once(db, account)
    with suppress(ads.FundedEnough):
        fund(db, account)
    each_funding_is_paid_once(db, account)
    assert Accounts(db).get(account)["balance"] == 1_000


def demo(db: Db) -> None:
    """Add a world with a room, and the mark of the demo."""
    World(db).create_location("hall", description="A hall.", exits={})
    db[MARKS].insert_one({"_id": "town: bank", "loaded": True})


def greet(db: Db, state: Any = None) -> None:
    """Give a new member what a newcomer of the demo gets."""
    Welcome(db, accounts=Accounts(db), world=World(db)).give("ada", "Ada")


def given_once(db: Db, state: Any) -> None:
    """Assert that the member has one account with the play money, and one character."""
    assert [item["balance"] for item in Accounts(db).owned_by("ada").items] == [PLAY_MONEY]
    assert [item["name"] for item in World(db).owned_by("ada").items] == ["Ada"]


def _given_once_or_not_yet(db: Db, state: Any) -> None:
    greet(db)
    given_once(db, state)


CASES = [
    Case(
        "World.create_character as a gift", "game", demo, greet, _given_once_or_not_yet, collections=ledger.COLLECTIONS
    ),
    Case("Carts.buy", "commerce", member_with_cart, buy, _bought_once, collections=ledger.COLLECTIONS),
    Case(
        "Orders.cancel paid from an account",
        "commerce",
        member_with_order,
        lambda db, state: orders(db).cancel(state["cart"]),
        _repaid_once,
        collections=ledger.COLLECTIONS,
    ),
    Case("AdNetwork.fund paid from an account", "ads", advertiser, fund, _funded_once, collections=ledger.COLLECTIONS),
]
