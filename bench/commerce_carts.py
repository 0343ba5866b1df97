"""Additions to carts, on many SKUs and on one, compared with the plain driver, the book's array and django-oscar."""

from __future__ import annotations

import json
import random
import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from bench import report
from bench._commerce_processes import Peer, fresh, peer
from bench.harness import Contender, Series, compare
from squinney.commerce import Carts, Catalog, TestGateway
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

THREADS = (1, 8, 32)
SPREAD = 1_000
SKUS = [f"s{number}" for number in range(SPREAD)]
OPEN_CARTS = 50_000
BOOK_SIZES = (0, 10_000, 50_000)
PER_CART = 10  # every contender creates a new cart after this many additions
MIN_RATE, MAX_TIME = 0.85, 1.2
HEAD = ["products", "threads", "contender", "additions/s", "p50 ms", "p99 ms", "rate relative to plain driver"]


def run(connection: Connection, *, rounds: int = 5, seconds: float = 1.2) -> None:
    """Run the benchmark and write its page."""
    db = fresh(connection)
    _stock(db, SKUS)
    rows, missed, version = [], [], ""
    with peer("_commerce_oscar.py") as oscar:
        for label, skus in (("1,000 SKUs", SKUS), ("one SKU", SKUS[:1])):
            for threads in THREADS:
                series = compare(_adders(db, skus), threads=threads, rounds=rounds, seconds=seconds)
                rows += [_row(label, threads, contender, series[0]) for contender in series]
                if (ratio := series[1].ratio_to(series[0])) < MIN_RATE:
                    missed.append(f"{ratio:.2f}x on {label} with {threads} threads")
                row, version = _oscar_row(oscar, label, len(skus), threads, rounds, seconds)
                rows.append(row)
    parts = [
        "The plain driver reads the product, then makes the same writes (cart line, stock, reservation) in one "
        f"transaction. Every contender creates a new cart after {PER_CART} additions. django-oscar reserves nothing "
        "when a product is added: it reads the basket and writes a line.",
        report.table(HEAD, rows),
        f"Goal: native mode reaches at least {MIN_RATE}x the rate of the plain driver. "
        + (f"Missed: {'; '.join(missed)}." if missed else "Met in every row."),
        *_with_open_carts(db, rounds, seconds),
        "## The book's array of reservations",
        "The product contains an array of reservations, and one conditional update adds to it; one thread. The write "
        "to the cart is left out, which favours this design.",
        report.table(["entries in the array", "additions/s"], [[f"{n:,}", f"{r:,.0f}"] for n, r in _book(db, seconds)]),
        f"{rounds} rounds of {seconds:g} s for each contender, alternating (django-oscar after each group). Rates are "
        "medians, and ratios are medians of the rounds' ratios. All writes are acknowledged by a majority with the "
        "journal flushed; PostgreSQL has `fsync` on. "
        f"{report.machine(connection.client.admin.command('buildInfo')['version'])} {version}".strip(),
    ]
    connection.client.drop_database(db.name)
    report.write_page("commerce_carts", "The shop: additions to carts", parts)
    print("\n\n".join(parts))


def _stock(db: Db, skus: list[str]) -> None:
    pricing = {"list": 500, "retail": 500, "currency": "EUR"}
    lines = (json.dumps({"_id": sku, "type": "Film", "title": sku, "pricing": pricing}) for sku in skus)
    Catalog(db).import_products(lines)
    stock = {"received": 10**9, "adjusted": 0, "qty": 10**9, "carted": 0, "sold": 0}
    db["commerce.stock"].insert_many([{"_id": sku, **stock} for sku in skus])


def _adders(db: Db, skus: list[str]) -> list[Contender]:
    chance = [random.Random(number) for number in range(max(THREADS))]

    def adder(add: Callable[[str, str], object], new: Callable[[], str]) -> Callable[[int], None]:
        own: dict[int, tuple[str, int]] = {}

        def work(thread: int) -> None:
            cart_id, added = own.get(thread, ("", PER_CART))
            if added >= PER_CART:
                cart_id, added = new(), 0
            add(cart_id, chance[thread].choice(skus))
            own[thread] = (cart_id, added + 1)

        return work

    carts = Carts(db, payments=TestGateway(db))
    new = lambda: carts.new()["_id"]  # noqa: E731
    return [
        Contender("plain driver", adder(lambda cart_id, sku: add_with_driver(db, cart_id, sku), new)),
        Contender("Carts", adder(lambda cart_id, sku: carts.add_item(cart_id, sku), new)),
    ]


def add_with_driver(db: Db, cart_id: str, sku: str) -> None:
    """Add a product as an engineer would with PyMongo: read it, then check and write in one transaction."""
    product = db["commerce.products"].find_one({"_id": sku}, {"title": 1, "pricing": 1}) or {}
    now = datetime.now(UTC)

    def work(session: ClientSession) -> None:
        line = {"sku": sku, "qty": 1, "price": product["pricing"]["retail"], "title": product["title"], "details": {}}
        where = {"_id": cart_id, "status": "active"}
        more = {"$inc": {"items.$.qty": 1, "version": 1}, "$set": {"last_modified": now}}
        if not db["commerce.carts"].update_one({**where, "items.sku": sku}, more, session=session).matched_count:
            first = {"$push": {"items": line}, "$inc": {"version": 1}, "$set": {"last_modified": now}}
            if not db["commerce.carts"].update_one(where, first, session=session).matched_count:
                raise ValueError("the cart is closed")
        taken = db["commerce.stock"].update_one(
            {"_id": sku, "qty": {"$gte": 1}}, {"$inc": {"qty": -1, "carted": 1}}, session=session
        )
        if not taken.matched_count:
            raise ValueError("out of stock")
        held = {"$inc": {"qty": 1}, "$set": {"at": now}}
        db["commerce.reservations"].update_one(
            {"_id": {"sku": sku, "cart": cart_id}}, held, upsert=True, session=session
        )

    with db.client.start_session() as session:
        session.with_transaction(work, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))


def _row(label: str, threads: int, contender: Series, driver: Series) -> list[str]:
    figures = [f"{contender.rate:,.0f}", f"{contender.percentile(0.5):.1f}", f"{contender.percentile(0.99):.1f}"]
    return [label, str(threads), contender.name, *figures, f"{contender.ratio_to(driver):.2f}x"]


def _oscar_row(oscar: Peer, label: str, skus: int, threads: int, rounds: int, seconds: float) -> tuple[list[str], str]:
    results = [oscar.ask(f"{threads} {seconds} {skus}") for _ in range(rounds)]
    row = [label, str(threads), "django-oscar"]
    if missing := next((result["missing"] for result in results if "missing" in result), ""):
        return [*row, f"missing: {missing}", "", "", ""], ""
    return [*row, f"{statistics.median(result['rate'] for result in results):,.0f}", "", "", ""], results[0]["version"]


def _with_open_carts(db: Db, rounds: int, seconds: float) -> list[str]:
    """Compare additions of a SKU that no cart holds with additions of a SKU that 50,000 carts hold."""
    _stock(db, ["free", "held"])
    _hold(db, "held")
    none = replace(_adders(db, ["free"])[1], name="none")
    many = replace(_adders(db, ["held"])[1], name="many")
    rounds = max(rounds, 7)
    without, with_them = compare([none, many], threads=1, rounds=rounds, seconds=seconds)
    ratio = statistics.median(
        before.rate / other.rate for before, other in zip(without.rounds, with_them.rounds, strict=True)
    )
    met = "met" if ratio <= MAX_TIME else "missed"
    return [
        f"## With {OPEN_CARTS:,} open carts",
        f"Adding a SKU that {OPEN_CARTS:,} open carts hold takes {ratio:.2f}x the time of adding a SKU that no cart "
        f"holds ({without.rate:,.0f} a second without these carts, {with_them.rate:,.0f} with them; one thread, "
        f"{rounds} alternating rounds). Goal: at most {MAX_TIME}x: {met}.",
    ]


def _hold(db: Db, sku: str) -> None:
    now = datetime.now(UTC)
    line = {"sku": sku, "qty": 1, "price": 500, "title": sku, "details": {}}
    common = {"status": "active", "last_modified": now, "currency": "EUR", "version": 2, "attempt": 0}
    for _ in range(0, OPEN_CARTS, 5_000):
        carts = [secrets.token_hex(16) for _ in range(5_000)]
        db["commerce.carts"].insert_many([{"_id": cart_id, "items": [line], **common} for cart_id in carts])
        held = [{"_id": {"sku": sku, "cart": cart_id}, "qty": 1, "at": now} for cart_id in carts]
        db["commerce.reservations"].insert_many(held)
    db["commerce.stock"].update_one({"_id": sku}, {"$inc": {"qty": -OPEN_CARTS, "carted": OPEN_CARTS}})


def _book(db: Db, seconds: float) -> Iterator[tuple[int, float]]:
    for size in BOOK_SIZES:
        now = datetime.now(UTC)
        carted = [_entry(now) for _ in range(size)]
        db["book"].replace_one({"_id": "s"}, {"_id": "s", "qty": 10**9, "carted": carted}, upsert=True)
        done, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            change = {"$inc": {"qty": -1}, "$push": {"carted": _entry(now)}}
            db["book"].update_one({"_id": "s", "qty": {"$gte": 1}}, change)
            done += 1
        yield size, done / (time.perf_counter() - began)


def _entry(now: datetime) -> dict[str, Any]:
    return {"qty": 1, "cart_id": secrets.token_hex(8), "timestamp": now}
