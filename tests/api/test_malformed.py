"""A malformed document stops neither `doctor`, nor `doctor --repair`, nor a page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pymongo
import pytest
from pymongo.errors import PyMongoError
from starlette.testclient import TestClient

from squinney import assembly
from squinney.clock import utcnow
from squinney.commerce import find_problems
from squinney.errors import Unavailable
from squinney.mongo.schema import Db
from squinney.service import doctor

HTML = {"Accept": "text/html"}


def damage(db: Db, collection: str, *documents: dict[str, Any]) -> None:
    """Insert documents that the server's validators would refuse."""
    db[collection].insert_many(documents, bypass_document_validation=True)


@pytest.fixture
def damaged(systems: assembly.Assembled) -> assembly.Assembled:
    """Return systems with repairable problems and with documents that cannot be read."""
    db = systems.db
    account = systems.services["ledger"]["accounts"].open("EUR", 100, name="Whole")
    db["ledger.accounts"].update_one({"_id": account["_id"]}, {"$set": {"balance": 150}})
    damage(db, "ledger.accounts", {"_id": "no-balance"}, {"_id": "closed", "closed_at": utcnow()})
    damage(
        db, "ledger.accounts", {"_id": "text", "name": "x", "currency": "EUR", "balance": "much", "opened_at": utcnow()}
    )
    damage(db, "ledger.entries", {"_id": "odd", "transfer_id": 7, "amount": "x", "account_id": "text", "at": utcnow()})
    damage(db, "commerce.stock", {"_id": "odd-stock", "qty": 1}, {"_id": 7, "qty": "many", "received": 2})
    damage(
        db, "commerce.orders", {"_id": "odd-order", "total": 3, "items": [{"qty": 1, "price": 2}]}, {"_id": "no-items"}
    )
    damage(db, "commerce.carts", {"_id": "odd-cart", "status": "pending", "items": 3})
    damage(db, "commerce.categories", {"_id": "odd-category"})
    damage(db, "commerce.products", {"_id": "odd-product", "title": "Odd", "title_lower": "odd", "category_ids": 5})
    damage(db, "identity.people", {"_id": "odd-person"})
    damage(db, "identity.logins", {"_id": "orphan", "person_id": "nobody", "password": "x"})
    return systems


def test_doctor_reports_malformed_documents_and_all_other_problems(damaged: assembly.Assembled) -> None:
    findings = list(doctor.examine(damaged.db))
    messages = [finding.message for finding in findings if finding.level == "problem"]
    for wanted in ("wrong-balance", "malformed-account", "login-without-person"):
        assert any(wanted in message for message in messages), (wanted, messages)
    assert {finding.area for finding in findings} >= {system.name for system in assembly.SYSTEMS}
    assert any("cannot be read" in message for message in messages)
    for wanted in ("damaged-order: order odd-order", "damaged-order: order no-items", "damaged-cart: cart odd-cart"):
        assert any(wanted in message for message in messages), (wanted, messages)
    assert not any("cannot be checked" in message for message in messages), messages


def test_repair_fixes_what_it_can(damaged: assembly.Assembled) -> None:
    done = doctor.repair(damaged.db)
    assert done["ledger: balances set"] == 1
    assert done["identity: logins removed"] == 1
    assert not [what for what in done if "stopped" in what], done


def test_pages_show_the_intact_documents(damaged: assembly.Assembled, site: TestClient) -> None:
    pricing = {"list": 1_500, "retail": 1_200, "currency": "EUR"}
    film = {"_id": "film", "type": "Film", "title": "Whole film", "pricing": pricing}
    damaged.services["commerce"]["catalog"].add(film)
    for path, shown in (("/ledger", "Whole"), ("/shop", "Whole film")):
        page = site.get(path, headers=HTML)
        assert page.status_code == 200, path
        assert shown in page.text
        assert "damaged and not shown here" in page.text, path
    assert site.get("/ledger/no-balance", headers=HTML).status_code == 409
    assert site.get("/admin/problems", headers=HTML).status_code == 200


def test_the_page_of_a_damaged_document_returns_409(damaged: assembly.Assembled, site: TestClient) -> None:
    db, line = damaged.db, {"sku": "a", "title": "A", "qty": 1, "price": "much"}
    pricing = {"list": 1, "retail": 1, "savings": 0, "pct_savings": 0, "currency": "EUR"}
    film = {"type": "Film", "title": "Film", "title_lower": "film", "pricing": pricing, "properties": []}
    damage(db, "commerce.products", {**film, "_id": "film", "details": {"director": 5}, "category_ids": []})
    order = {"total": 1, "currency": "EUR", "status": "placed", "placed_at": utcnow(), "version": 1}
    damage(db, "commerce.orders", {"_id": "odd-line", "items": [line], **order})
    damage(db, "commerce.carts", {"_id": "odd-line", "status": "active", "currency": "EUR", "items": [line]})
    for path in ("products/odd-product", "products/film", "orders/odd-order", "orders/odd-line"):
        page = site.get(f"/shop/{path}", headers=HTML)
        assert (page.status_code, "is damaged" in page.text) == (409, True), path
    for cart in ("odd-cart", "odd-line"):
        site.cookies.set("squinney-cart", cart)
        assert site.get("/shop/cart", headers=HTML).status_code == 409, cart
    site.cookies.delete("squinney-cart")
    page = site.get("/shop/admin", headers=HTML)
    assert (page.status_code, "damaged and not shown here" in page.text) == (200, True)
    messages = [str(problem) for problem in find_problems(db) if problem.code == "damaged-product"]
    assert len(messages) == 2
    assert "director" in next(message for message in messages if "film" in message)


def test_the_list_of_own_orders_shows_the_intact_ones(systems: assembly.Assembled, site: TestClient) -> None:
    person = systems.db["identity.people"].find_one({})
    assert person is not None
    damage(systems.db, "commerce.orders", {"_id": "odd", "customer": person["_id"], "placed_at": utcnow(), "items": 5})
    page = site.get("/shop/orders", headers=HTML)
    assert (page.status_code, "damaged and not shown here" in page.text) == (200, True)


def test_a_slow_system_is_a_notice_and_the_others_are_still_checked(
    systems: assembly.Assembled,
) -> None:
    def slow(db: Db) -> Any:
        while True:
            db.command("ping")
        yield

    first, *others = assembly.SYSTEMS
    findings = list(doctor.examine(systems.db, seconds=10, systems=[replace(first, find_problems=slow), *others]))
    levels = {finding.area: finding.level for finding in findings}
    assert levels[first.name] == "notice"
    assert {levels[system.name] for system in others} == {"ok"}
    assert not [finding for finding in findings if finding.level == "problem"]


def test_a_timeout_is_raised_and_not_reported_as_a_problem(systems: assembly.Assembled) -> None:
    for system in assembly.SYSTEMS:
        with pytest.raises((PyMongoError, Unavailable)), pymongo.timeout(0.000_001):
            list(system.find_problems(systems.db))


def test_a_check_that_raises_is_one_finding(systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(db: Db) -> Any:
        raise KeyError("a field")

    failing = [replace(assembly.SYSTEMS[0], find_problems=broken, repair=broken), *assembly.SYSTEMS[1:]]
    findings = list(doctor.examine(systems.db, systems=failing))
    assert [finding.area for finding in findings if finding.level == "problem"] == [assembly.SYSTEMS[0].name]
    assert {finding.area for finding in findings} >= {system.name for system in assembly.SYSTEMS}
    assert doctor.repair(systems.db, systems=failing)
