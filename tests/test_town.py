"""The town of the demo: loaded once, from where it was interrupted, and removed again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from squinney import assembly
from squinney.commerce import Orders, TestGateway
from squinney.errors import Conflict
from squinney.mongo.schema import Db
from squinney.service.town import magazine, products
from squinney.service.town.covers import MOTIFS
from squinney.service.town.loading import PARTS, is_loaded, load_town
from squinney.service.town.reset import is_resetting, reset_town
from squinney.transactions import Step, Transactions
from tests.plugins.shelf import Prepared
from tests.systems.analytics.conftest import stored_events

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
# Collections whose documents are the same each time, and fields of those whose ids are not.
SAME = (
    "commerce.products",
    "commerce.pictures",
    "commerce.orders",
    "commerce.stock",
    "commerce.movements",
    "ledger.accounts",
    "ledger.entries",
    "analytics.hits_daily",
    "analytics.hits_monthly",
    "ads.counters",
)


class Killed(Exception):
    """Ends a load as a kill does, between two parts."""


def shown(db: Db) -> dict[str, Any]:
    """Return what the site shows of the town."""
    whole: dict[str, Any] = {
        name: {one["_id"]: one for one in db[name].find({}, {"category_ids": 0})} for name in SAME[:8]
    }
    whole |= {name: db[name].count_documents({}) for name in SAME[8:]}
    whole["nodes"] = sorted((one["metadata"]["slug"], one["metadata"]["published"]) for one in db["content.nodes"].find(
        {"metadata.kept_for": None}))  # fmt: skip
    whole["comments"] = sorted((one["text"], one["posted"]) for one in db["content.comments"].find())
    whole["posts"] = sorted((one["ts"], one["by"], one["comment_count"]) for one in db["social.posts"].find())
    whole["events"] = sorted((one["time"], one["path"], one["status"]) for one in stored_events(db))
    whole["rooms"] = db["game.locations"].count_documents({})
    return whole


def load(systems: assembly.Assembled, *, until: int = 99) -> None:
    """Load the town, but end before the part with that number."""

    def progress(title: str, done: int, total: int) -> None:
        if title and done == until:
            raise Killed(title)

    load_town(systems, now=NOW, progress=progress)


def test_a_reset_of_one_system_keeps_the_keys_of_others(prepared: Prepared) -> None:
    """A payment that is repeated with its key afterwards must not happen again."""
    ledger = [system for system in assembly.SYSTEMS if system.name == "ledger"]
    systems = assembly.assemble(prepared(assembly.collections(ledger)), systems=ledger)
    runner = Transactions(systems.db)
    load(systems)
    first = runner.run("pay", [Step("my.invoices", 7, insert={})], key="invoice 7", arguments={})
    with pytest.raises(Conflict, match="this database has 4 accounts;"):
        reset_town(systems)
    reset_town(systems, everything=True)
    load(systems)
    assert systems.db["ledger.accounts"].count_documents({}) == 4
    assert systems.db["squinney.keys"].count_documents({"kind": "open"}) == 4
    assert runner.run("pay", [Step("my.invoices", 7, insert={})], key="invoice 7", arguments={}).id == first.id


def test_the_town_is_loaded_in_spite_of_kills_and_reset_to_the_same(prepared: Prepared) -> None:
    systems = assembly.assemble(prepared(assembly.collections()))
    db = systems.db
    # The first call ends after a part, each next one has one part less to load.
    for done in (1, 2):
        with pytest.raises(Killed):
            load(systems, until=done)
    assert not is_loaded(systems)
    load(systems)
    assert is_loaded(systems)
    first = shown(db)
    load(systems)
    assert shown(db) == first
    assert [problem for system in assembly.SYSTEMS for problem in system.find_problems(db)] == []
    _check_numbers(db, first)

    order = Orders(db, payments=TestGateway(db)).place(
        [{"sku": "lp-blue-tuesday", "qty": 1, "price": 1_099}], currency="EUR", customer="somebody"
    )
    with pytest.raises(Conflict, match="people have added 1 order;"):
        reset_town(systems)
    assert Orders(db, payments=TestGateway(db)).get(order["_id"])
    db["squinney.demo"].update_one({"_id": "reset"}, {"$set": {"begun": True}}, upsert=True)
    load(systems)  # it finishes the reset, which was interrupted before anything was removed
    assert not is_resetting(db)
    assert shown(db) == first


def _check_numbers(db: Db, first: Mapping[str, Any]) -> None:
    """Check that the town is as large as the documentation says."""
    orders = first["commerce.orders"].values()
    assert (len(first["commerce.products"]), len(orders)) == (72, 250)
    assert {order["status"] for order in orders} == {"placed", "cancelled"}
    assert sum(order["status"] == "cancelled" and "payment_id" in order for order in orders) == 15
    assert db["content.nodes"].count_documents({"metadata.type": "blog-entry"}) == 16
    assert db["content.flags"].count_documents({"state": "open"}) == 2
    assert db["social.users"].count_documents({}) == 14
    assert min(one["metadata"]["date"] for one in db["analytics.hits_monthly"].find()) <= datetime(
        2025, 12, 1, tzinfo=UTC
    )
    assert db["analytics.events"].count_documents({"events.status": 404})
    paid = [one for one in db["commerce.payments"].find() if "paid_from" in one]
    transfers = {entry["transfer_id"] for entry in db["ledger.entries"].find({"about": {"$regex": "^/shop/orders/"}})}
    assert {transfer for payment in paid for transfer in payment["transfers"]} == transfers
    assert len(paid) > 150
    assert all(stock["qty"] >= 0 for stock in db["commerce.stock"].find())


def test_no_two_covers_are_alike() -> None:
    catalogue = products.products()
    drawn = [products.picture_of(one, number, NOW)["sizes"][0]["bytes"] for number, one in enumerate(catalogue)]
    assert len(set(drawn)) == len(drawn) == 72
    again = [products.picture_of(one, number, NOW)["sizes"][0]["bytes"] for number, one in enumerate(catalogue)]
    assert again == drawn
    assert {one.genre for one in catalogue} == set(MOTIFS)


def test_every_link_of_the_magazine_leads_to_a_product_or_page() -> None:
    skus = {one.path for one in products.products()} | {"/game", "/shop", "/social/people", "/site/magazine"}
    links = [
        part.partition(")")[0]
        for name in ("magazine.txt", "pages.txt")
        for article in magazine.articles(name)
        for part in "\n".join(article.paragraphs).split("](")[1:]
    ]
    assert len(links) > 20
    assert set(links) <= skus


def test_the_parts_belong_to_different_systems() -> None:
    assert len({part.system for part in PARTS}) == len(PARTS)
