"""An order that is paid from an account: the order and the transfer are one transaction, and link to each other."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient
from tests.api.conftest import SECRET
from tests.racing import at_once

from squinney import assembly, commerce, ledger
from squinney.clock import utcnow
from squinney.commerce import OrderFixed, Orders
from squinney.http.access.visitor import SIGNED_IN, Visitor
from squinney.service.links.order_payments import TILL, OrderPayments, order_payments
from squinney.service.town.parts import MARKS

HTML = {"accept": "text/html"}
As = Callable[[str], None]


@pytest.fixture
def sign_in(stranger: TestClient, systems: assembly.Assembled) -> As:
    """Return a function that signs the client in as a member, an editor or an admin."""

    def as_(login: str) -> None:
        role = login if login in ("editor", "admin") else "member"
        person = {"_id": login, "login": login, "name": f"{login.title()} Larch", "role": role, "created_at": utcnow()}
        systems.db["identity.people"].update_one({"_id": login}, {"$set": person}, upsert=True)
        token = SIGNED_IN + systems.services["identity"]["sessions"].start(person)
        stranger.cookies.set("squinney", token)
        stranger.headers["X-CSRF-Token"] = Visitor(SECRET, token).csrf

    return as_


@pytest.fixture
def account(systems: assembly.Assembled) -> str:
    """Add a film, and 20.00 on an account of ada; return the account."""
    shop = systems.services["commerce"]
    film = {"_id": "film", "type": "Film", "title": "Dusk", "pricing": {"list": 500, "retail": 500, "currency": "EUR"}}
    shop["catalog"].add(film)
    shop["inventory"].receive("film", 10)
    return str(systems.services["ledger"]["accounts"].open("EUR", 2_000, name="Savings", owner="ada")["_id"])


def put_into_cart(client: TestClient, qty: int = 2) -> None:
    added = client.post("/shop/cart/items", data={"sku": "film", "qty": str(qty), "key": f"add {qty}"})
    assert added.url.path == "/shop/cart"


def test_a_member_buys_from_the_own_account_and_both_pages_link_to_each_other(
    stranger: TestClient, systems: assembly.Assembled, sign_in: As, account: str
) -> None:
    sign_in("ada")
    put_into_cart(stranger)
    assert f'<option value="{account}">Savings: 20.00 EUR' in stranger.get("/shop/cart").text
    order = stranger.post("/shop/cart/pay", data={"account_id": account, "key": "k"})
    assert order.url.path.startswith("/shop/orders/")
    assert "paid from an account" in order.text
    line = re.search(rf'href="/ledger/{account}#(t-\w+)"', order.text)
    assert line is not None
    statement = stranger.get(f"/ledger/{account}").text
    assert re.search(rf'<tr id="{line[1]}">.*?href="{order.url.path}".*?-10.00 EUR', statement, re.DOTALL)
    accounts = systems.services["ledger"]["accounts"]
    assert [one["balance"] for one in accounts.owned_by(TILL).items] == [1_000]
    assert accounts.get(account)["balance"] == 1_000

    cancelled = stranger.post(f"{order.url.path}/cancel")
    assert "is cancelled, and the payment was refunded" in cancelled.text
    assert cancelled.text.count(f"/ledger/{account}#t-") == 2
    assert accounts.get(account)["balance"] == 2_000
    assert "refund of order" in stranger.get(f"/ledger/{account}").text
    for system in (commerce, ledger):
        assert list(system.find_problems(systems.db)) == []


def test_a_refused_payment_leaves_neither_order_nor_transfer(
    stranger: TestClient, systems: assembly.Assembled, sign_in: As, account: str
) -> None:
    foreign = systems.services["ledger"]["accounts"].open("EUR", 9_000, owner="grace")["_id"]
    sign_in("ada")
    put_into_cart(stranger, 5)
    before = systems.db["ledger.entries"].count_documents({})
    poor = stranger.post("/shop/cart/pay", data={"account_id": account, "key": "k"}, headers=HTML)
    assert (poor.status_code, "too low" in poor.text) == (409, True)
    assert stranger.post("/shop/cart/pay", data={"account_id": foreign, "key": "k"}).status_code == 404
    assert systems.db["commerce.orders"].count_documents({}) == 0
    assert systems.db["commerce.payments"].count_documents({}) == 0
    assert systems.db["ledger.entries"].count_documents({}) == before
    assert "active" in {cart["status"] for cart in systems.db["commerce.carts"].find()}


def test_payments_at_the_same_time_sell_a_cart_once(systems: assembly.Assembled, account: str) -> None:
    carts, payments = systems.services["commerce"]["carts"], order_payments(systems)
    assert isinstance(payments, OrderPayments)
    cart = carts.new(customer="ada")["_id"]
    carts.add_item(cart, "film", 2)
    refused: list[str] = []

    def pay(number: int) -> None:
        try:
            payments.pay(cart, account, owner="ada", key=f"key {number % 2}")
        except commerce.CartClosed as error:
            refused.append(error.message)

    at_once(6, pay)
    assert len(refused) == 3  # those with the other key
    assert systems.services["ledger"]["accounts"].get(account)["balance"] == 1_000
    assert systems.db["commerce.orders"].count_documents({}) == 1


def test_a_cart_of_somebody_else_cannot_be_bought(systems: assembly.Assembled, account: str) -> None:
    carts, payments = systems.services["commerce"]["carts"], order_payments(systems)
    assert isinstance(payments, OrderPayments)
    cart = carts.new(customer="grace")["_id"]
    carts.add_item(cart, "film")
    with pytest.raises(commerce.UnknownCart):
        payments.pay(cart, account, owner="ada", key="k")


def test_orders_without_the_ledger_refuse_to_cancel_what_it_paid_for(systems: assembly.Assembled, account: str) -> None:
    carts, payments = systems.services["commerce"]["carts"], order_payments(systems)
    assert isinstance(payments, OrderPayments)
    cart = carts.new(customer="ada")["_id"]
    carts.add_item(cart, "film")
    order = payments.pay(cart, account, owner="ada", key="k")
    with pytest.raises(OrderFixed, match="ledger"):
        Orders(systems.db, payments=carts.payments).cancel(order["_id"])
    orders = systems.services["commerce"]["orders"]
    for _ in range(2):
        assert orders.cancel(order["_id"])["status"] == "cancelled"
    assert systems.services["ledger"]["accounts"].get(account)["balance"] == 2_000


def test_a_member_cancels_only_own_orders_and_an_admin_sees_a_name(
    stranger: TestClient, systems: assembly.Assembled, sign_in: As, account: str
) -> None:
    sign_in("ada")
    put_into_cart(stranger)
    order = stranger.post("/shop/cart/checkout", data={"key": "k"}).url.path
    sign_in("grace")
    assert stranger.post(f"{order}/cancel").status_code == 404
    sign_in("admin")
    page = stranger.get(order).text
    assert "Ada Larch" in page
    assert "Ada Larch" in stranger.get("/shop/admin/orders").text
    sign_in("ada")
    assert "was cancelled" in stranger.post(f"{order}/cancel").text


def test_a_checkout_that_a_job_completes_says_that_it_was_recovered(
    stranger: TestClient, systems: assembly.Assembled, sign_in: As, account: str
) -> None:
    from squinney.commerce import Carts, PaymentUnsettled, TestGateway

    carts = Carts(systems.db, payments=TestGateway(systems.db, "capture-then-timeout"))
    cart = carts.new(customer="ada")["_id"]
    carts.add_item(cart, "film")
    with pytest.raises(PaymentUnsettled):
        carts.checkout(cart, key="k")
    assert systems.services["commerce"]["carts"].settle_payments(0)["captured"] == 1
    sign_in("ada")
    assert "recovered after a crash" in stranger.get(f"/shop/orders/{cart}").text


def test_visitors_read_the_till_of_the_demo_and_nobody_else_in_it(
    stranger: TestClient, systems: assembly.Assembled, sign_in: As, account: str
) -> None:
    sign_in("ada")
    put_into_cart(stranger)
    stranger.post("/shop/cart/pay", data={"account_id": account, "key": "k"})
    stranger.cookies.clear()
    page = stranger.get("/ledger", headers=HTML).text
    assert "10.00 EUR" not in page, "the till of a real shop is not public"
    systems.db[MARKS].insert_one({"_id": "town: bank", "loaded": True})
    page = stranger.get("/ledger", headers=HTML).text
    assert "10.00 EUR" in page
    assert "Savings" not in page
    assert account not in page
    till = systems.services["ledger"]["accounts"].owned_by(TILL).items[0]["_id"]
    assert stranger.get(f"/ledger/{till}", headers=HTML).url.path == "/sign-in"
