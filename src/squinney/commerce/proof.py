"""The commerce part of `squinney prove`: what workers do until they are killed, and what must hold afterwards."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from threading import Thread
from typing import Any

from squinney.clock import utcnow
from squinney.commerce.carts.carts import Carts
from squinney.commerce.catalog.catalog import Catalog
from squinney.commerce.categories.categories import Categories
from squinney.commerce.inventory.inventory import Inventory
from squinney.commerce.orders.orders import Orders
from squinney.commerce.payments.test_gateway import Behaviour, TestGateway
from squinney.commerce.repair import find_problems
from squinney.errors import SquinneyError
from squinney.mongo.schema import Db
from squinney.system import Proof
from squinney.transactions import end_abandoned

SKUS = ["a", "b", "c", "d", "e"]
UNITS = 100
THREADS = 8
STALLED_SECONDS = 3.0
SETTLED_WITHIN_SECONDS = 100.0  # a killed worker's transaction may hold its documents for up to a minute
MIN_CATEGORIES, MAX_CATEGORIES = 10, 40
BEHAVIOURS: list[Behaviour] = ["capture", "capture", "capture", "decline", "timeout", "capture-then-timeout"]


def prepare(db: Db) -> None:
    """Add a small catalog with scarce stock, and a category tree."""
    catalog, inventory = Catalog(db), Inventory(db)
    for price, sku in enumerate(SKUS, start=1):
        pricing = {"list": price * 100, "retail": price * 100, "currency": "EUR"}
        catalog.add({"_id": sku, "type": "Film", "title": f"Proof {sku}", "pricing": pricing})
        inventory.receive(sku, UNITS)
    Categories(db).add_paths([[f"n{top}", f"n{top}{below}"] for top in range(4) for below in range(4)])


def carts_for(db: Db, behaviour: Behaviour = "capture") -> Carts:
    """Return carts with a test provider that shows `behaviour`."""
    return Carts(db, payments=TestGateway(db, behaviour), transactions=Proof.transactions(db))


def work(db: Db, seed: int) -> None:
    """Run eight threads that call random operations of the shop until the process is killed."""
    threads = [Thread(target=_shop, args=(db, seed * 100 + number), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _shop(db: Db, seed: int) -> None:
    chance = random.Random(seed)
    own: list[str] = []
    done = 0
    while True:
        try:
            _act(db, chance, own)
            done += 1
        except SquinneyError:
            pass
        if done % 10 == 9:
            db["proof"].update_one({"_id": seed}, {"$set": {"done": done}}, upsert=True)


def _act(db: Db, chance: random.Random, own: list[str]) -> object:
    carts = carts_for(db, chance.choice(BEHAVIOURS))
    if len(own) < 3:
        own.append(carts.new()["_id"])
    cart_id, sku = chance.choice(own), chance.choice(SKUS)
    actions: list[Callable[[], object]] = [
        *[lambda: carts.add_item(cart_id, sku, chance.randint(1, 4))] * 5,
        *[lambda: carts.set_quantity(cart_id, sku, chance.randint(0, 5))] * 3,
        lambda: carts.remove_item(cart_id, sku),
        *[lambda: _check_out(carts, cart_id, own)] * 3,
        lambda: carts.abandon(own.pop(own.index(cart_id))),
        lambda: carts.expire_carts(20),
        lambda: carts.return_orphans(1),
        lambda: carts.settle_payments(STALLED_SECONDS),
        lambda: _cancel_one(db, chance),
        lambda: Inventory(db, transactions=Proof.transactions(db)).adjust(sku, chance.choice([-1, 1]), "counted"),
        lambda: _change_tree(db, chance),
    ]
    return chance.choice(actions)()


def _check_out(carts: Carts, cart_id: str, own: list[str]) -> object:
    order = carts.checkout(cart_id, key="proof")
    own.remove(cart_id)
    return order


def _cancel_one(db: Db, chance: random.Random) -> object:
    orders = Orders(db, payments=TestGateway(db), transactions=Proof.transactions(db))
    placed = list(db["commerce.orders"].find({"status": "placed"}, {"_id": 1}, limit=20))
    return orders.cancel(chance.choice(placed)["_id"]) if placed else None


def _change_tree(db: Db, chance: random.Random) -> object:
    categories = Categories(db)
    slugs = [node["slug"] for node in db["commerce.categories"].find({}, {"slug": 1})]
    node, parent = chance.choice(slugs), chance.choice([*slugs, None])
    actions: list[Callable[[], object]] = [
        *[lambda: categories.move(node, parent, chance.choice([None, 0, 1]))] * 4,
        lambda: categories.rename(node, f"Name {chance.randrange(100)}"),
        lambda: categories.change_slug(node, f"slug-{chance.randrange(100)}"),
    ]
    if len(slugs) < MAX_CATEGORIES:
        actions.append(lambda: categories.add("new", parent=parent))
    if len(slugs) > MIN_CATEGORIES:
        actions.append(lambda: categories.remove(node, children=chance.choice(["lift", "refuse"])))
    return chance.choice(actions)()


def settle(db: Db, stalled_seconds: float = STALLED_SECONDS) -> Counter[str]:
    """Run the background jobs once; return their counts."""
    done = Counter({"open transactions": end_abandoned(db)})
    carts = carts_for(db)
    jobs: list[Callable[[], Counter[str]]] = [
        lambda: carts.settle_payments(stalled_seconds),
        lambda: carts.expire_carts(20),
        lambda: carts.return_orphans(0),
    ]
    for job in jobs:
        try:
            done.update(job())
        except SquinneyError:
            done["jobs to retry"] += 1
    return done


def progress(db: Db) -> int:
    """Return how many operations were acknowledged so far."""
    summed: Any = next(db["proof"].aggregate([{"$group": {"_id": None, "done": {"$sum": "$done"}}}]), {"done": 0})
    return int(summed["done"])


def check(db: Db) -> dict[str, str]:
    """Return each promise with the data that breaks it, or with an empty string if it holds."""
    _settle_everything(db)
    wrong, negative = [], []
    for stock in db["commerce.stock"].find():
        if stock["received"] + stock["adjusted"] != stock["qty"] + stock["carted"] + stock["sold"]:
            wrong.append(stock["_id"])
        if min(stock["qty"], stock["carted"], stock["sold"]) < 0:
            negative.append(stock["_id"])
    captured = Counter(payment["_id"] for payment in db["commerce.payments"].find({"state": "captured"}))
    charged = Counter(charge["_id"] for charge in db["commerce.test_charges"].find({"state": "captured"}))
    ordered = Counter(order["payment_id"] for order in db["commerce.orders"].find({"status": "placed"}))
    twice = [cart for cart, times in Counter(key.split(":")[0] for key in charged).items() if times > 1]
    stuck = db["commerce.carts"].count_documents({"status": {"$in": ["pending", "expiring"]}})
    problems = [str(problem) for problem in find_problems(db)]
    return {
        "received + adjusted = available + carted + sold, per SKU": ", ".join(wrong),
        "nothing is negative": ", ".join(negative),
        "each captured payment has exactly one order, and the reverse": _differences(captured, ordered),
        "our captured payments are the provider's charges": _differences(captured, charged),
        "no cart was charged twice": f"{len(twice)} carts" if twice else "",
        "no cart is stuck": f"{stuck} carts" if stuck else "",
        "find_problems is empty": "; ".join(problems[:3]),
    }


def _differences(mine: Counter[str], other: Counter[str]) -> str:
    differing = (mine - other) + (other - mine)
    return ", ".join(list(differing)[:3])


def _settle_everything(db: Db) -> None:
    """Run the jobs until no payment, cart or transaction is open."""
    until = time.monotonic() + SETTLED_WITHIN_SECONDS
    while time.monotonic() < until:
        settle(db, 0)
        if not _is_open(db):
            return
        time.sleep(0.3)


def _is_open(db: Db) -> bool:
    payments = db["commerce.payments"].count_documents(
        {"state": {"$in": ["started", "refunding"]}, "at": {"$lte": utcnow()}}
    )
    carts = db["commerce.carts"].count_documents({"status": {"$in": ["pending", "expiring"]}})
    unfinished = db["squinney.keys"].count_documents({"state": {"$in": ["new", "commit", "rollback"]}})
    return bool(payments or carts or unfinished)
