"""The shop: additions to carts, moves of subtrees, and browsing, beside the raw driver, the book's way and peers."""

from __future__ import annotations

import gzip
import json
import os
import random
import secrets
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from bench import report
from bench.harness import Contender, Series, compare
from bench.postgres import private_postgres
from squinney import assembly, commerce
from squinney.commerce import Carts, Catalog, Categories, TestGateway
from squinney.commerce.documents import CATEGORY_TREE
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db
from squinney.patterns.transactions import Transactions

THREADS = (1, 8, 32)
SPREAD = 1_000
OPEN_CARTS = 50_000
SUBTREE = 10_000
BOOK_SIZES = (0, 10_000, 50_000)
PRODUCTS = int(os.environ.get("SQUINNEY_BENCH_PRODUCTS", "1000000"))
PEERS = "SQUINNEY_PEERS"
HERE = Path(__file__).parent


def run(connection: Connection, *, rounds: int = 3, seconds: float = 2.0, products: int = PRODUCTS) -> None:
    """Measure everything and write the page."""
    version = connection.client.admin.command("buildInfo")["version"]
    parts = []
    with ExitStack() as stack:
        peers = stack.enter_context(_peers())
        parts += _additions(_fresh(connection), peers, rounds, seconds)
        parts += _moves(_fresh(connection), peers)
        parts += _browsing(_fresh(connection), rounds, seconds, products)
    connection.client.drop_database("bench_commerce")
    notes = (
        f"{rounds} interleaved rounds of {seconds:g} s for each contender; rates are medians, ratios are medians of "
    )
    notes += f"the rounds' ratios. Written with majority. {report.machine(version)}"
    if extra := os.environ.get("SQUINNEY_BENCH_NOTE"):
        notes += f" {extra}"
    report.write_page("commerce", "The shop: carts, trees and browsing", [*parts, notes])
    print("\n\n".join([*parts, notes]))


def _fresh(connection: Connection) -> Db:
    db = connection.client["bench_commerce"]
    connection.client.drop_database(db.name)
    schema.apply(db, [*assembly.CORE_COLLECTIONS, *commerce.COLLECTIONS])
    return db


# ---- additions ----


def _additions(db: Db, peers: dict[str, Any], rounds: int, seconds: float) -> list[str]:
    _stock(db, [f"s{number}" for number in range(SPREAD)])
    rows = []
    for label, skus in (("1,000 SKUs", [f"s{number}" for number in range(SPREAD)]), ("one SKU", ["s0"])):
        for threads in THREADS:
            series = compare(_adders(db, skus), threads=threads, rounds=rounds, seconds=seconds)
            rows += [_addition_row(label, threads, one, series[0]) for one in series]
    before, after, ratio = _with_open_carts(db, rounds, seconds)
    for threads in THREADS:
        rows.append(_oscar_row(peers, threads, seconds))
    head = ["on", "threads", "how", "additions/s", "p50 ms", "p99 ms", "rate against by hand"]
    book = [[f"{size:,}", f"{rate:,.0f}"] for size, rate in _book_rates(db, seconds)]
    return [
        "## Additions to carts",
        "By hand is the same writes (cart line, stock, reservation) in one driver transaction, the product read first.",
        report.table(head, rows),
        f"With {OPEN_CARTS:,} open carts that hold a SKU, adding it, at one thread, takes {ratio:.2f}x the time "
        f"it takes with none ({before:,.0f}/s before, {after:,.0f}/s with them).",
        "The book's way, an array of reservations in the product, one conditional update, one thread:",
        report.table(["entries in the array", "additions/s"], book),
    ]


def _stock(db: Db, skus: list[str]) -> None:
    pricing = {"list": 500, "retail": 500, "currency": "EUR"}
    lines = (json.dumps({"_id": sku, "type": "Film", "title": sku, "pricing": pricing}) for sku in skus)
    Catalog(db).import_products(lines)
    stock = {"received": 10**9, "adjusted": 0, "qty": 10**9, "carted": 0, "sold": 0, "txns": []}
    db["stock"].insert_many([{"_id": sku, **stock} for sku in skus])


def _adders(db: Db, skus: list[str]) -> list[Contender]:
    chance = [random.Random(number) for number in range(max(THREADS))]

    def adder(add: Callable[[str, str], object], new: Callable[[], str]) -> Callable[[int], None]:
        """Ten additions to a cart, then another cart: making one is part of neither's cost."""
        own: dict[int, tuple[str, int]] = {}

        def work(thread: int) -> None:
            cart_id, added = own.get(thread, ("", 10))
            if added >= 10:
                cart_id, added = new(), 0
            add(cart_id, chance[thread].choice(skus))
            own[thread] = (cart_id, added + 1)

        return work

    native = Carts(db, payments=TestGateway(db), transactions=Transactions(db, "native"))
    two_phase = Carts(db, payments=TestGateway(db), transactions=Transactions(db, "two-phase"))
    new = lambda: native.new()["_id"]  # noqa: E731
    return [
        Contender("by hand", adder(lambda cart_id, sku: by_hand(db, cart_id, sku), new)),
        Contender("native", adder(lambda cart_id, sku: native.add_item(cart_id, sku), new)),
        Contender("two-phase", adder(lambda cart_id, sku: two_phase.add_item(cart_id, sku), new)),
    ]


def by_hand(db: Db, cart_id: str, sku: str) -> None:
    """What an engineer would write: read the product, then one driver transaction, checks included."""
    product = db["products"].find_one({"_id": sku}, {"title": 1, "pricing": 1}) or {}
    now = datetime.now(UTC)

    def work(session: ClientSession) -> None:
        line = {"sku": sku, "qty": 1, "price": product["pricing"]["retail"], "title": product["title"], "details": {}}
        where = {"_id": cart_id, "status": "active"}
        more = {"$inc": {"items.$.qty": 1, "version": 1}, "$set": {"last_modified": now}}
        if not db["carts"].update_one({**where, "items.sku": sku}, more, session=session).matched_count:
            first = {"$push": {"items": line}, "$inc": {"version": 1}, "$set": {"last_modified": now}}
            if not db["carts"].update_one(where, first, session=session).matched_count:
                raise ValueError("the cart is closed")
        taken = db["stock"].update_one(
            {"_id": sku, "qty": {"$gte": 1}}, {"$inc": {"qty": -1, "carted": 1}}, session=session
        )
        if not taken.matched_count:
            raise ValueError("out of stock")
        held = {"$inc": {"qty": 1}, "$set": {"at": now}}
        db["reservations"].update_one({"_id": {"sku": sku, "cart": cart_id}}, held, upsert=True, session=session)

    with db.client.start_session() as session:
        session.with_transaction(work, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))


def _addition_row(label: str, threads: int, one: Series, hand: Series) -> list[str]:
    figures = [f"{one.rate:,.0f}", f"{one.percentile(0.5):.1f}", f"{one.percentile(0.99):.1f}"]
    return [label, str(threads), one.name, *figures, f"{one.ratio_to(hand):.2f}x"]


def _with_open_carts(db: Db, rounds: int, seconds: float) -> tuple[float, float, float]:
    """Additions of a SKU that nobody holds, beside additions of one that 50,000 carts hold, in turns."""
    _stock(db, ["free", "held"])
    now = datetime.now(UTC)
    for start in range(0, OPEN_CARTS, 5_000):
        carts = [secrets.token_hex(16) for _ in range(start, start + 5_000)]
        line = {"sku": "held", "qty": 1, "price": 500, "title": "held", "details": {}}
        common = {"status": "active", "last_modified": now, "currency": "EUR", "version": 2, "attempt": 0, "txns": []}
        db["carts"].insert_many([{"_id": cart_id, "items": [line], **common} for cart_id in carts])
        held = [{"_id": {"sku": "held", "cart": cart_id}, "qty": 1, "at": now, "txns": []} for cart_id in carts]
        db["reservations"].insert_many(held)
    db["stock"].update_one({"_id": "held"}, {"$inc": {"qty": -OPEN_CARTS, "carted": OPEN_CARTS}})
    none = replace(_adders(db, ["free"])[1], name="none")
    many = replace(_adders(db, ["held"])[1], name="many")
    without, with_them = compare([none, many], threads=1, rounds=max(rounds, 5), seconds=seconds)
    return without.rate, with_them.rate, without.ratio_to(with_them)


def _book_rates(db: Db, seconds: float) -> Iterator[tuple[int, float]]:
    """The array in the product, as the book has it; the cart's own write is left out, to its advantage."""
    for size in BOOK_SIZES:
        now = datetime.now(UTC)
        carted = [{"qty": 1, "cart_id": secrets.token_hex(8), "timestamp": now} for _ in range(size)]
        db["book"].replace_one({"_id": "s"}, {"_id": "s", "qty": 10**9, "carted": carted}, upsert=True)
        done, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            entry = {"qty": 1, "cart_id": secrets.token_hex(8), "timestamp": now}
            db["book"].update_one({"_id": "s", "qty": {"$gte": 1}}, {"$inc": {"qty": -1}, "$push": {"carted": entry}})
            done += 1
        yield size, done / (time.perf_counter() - began)


def _oscar_row(peers: dict[str, Any], threads: int, seconds: float) -> list[str]:
    said = _ask(peers.get("oscar"), f"{threads} {seconds}")
    how = "django-oscar on PostgreSQL (reserves nothing)"
    if "rate" not in said:
        return ["200 SKUs", str(threads), how, f"missing: {said['missing']}", "", "", ""]
    return ["200 SKUs", str(threads), how, f"{said['rate']:,.0f}", "", "", ""]


# ---- moves ----


def _moves(db: Db, peers: dict[str, Any], rounds: int = 3) -> list[str]:
    paths, source = _paths()
    categories = Categories(db)
    categories.add_paths(paths)
    top = categories.get("x")
    below = db["categories"].count_documents(CATEGORY_TREE.below(top["_id"]))
    where = {"at": "b"}
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        times.setdefault("ours: one update", []).append(_timed(lambda: categories.move("x", _turn(where))))
        times.setdefault("the book's: node by node", []).append(_timed(lambda: _node_by_node(db, "x", _turn(where))))
        for name in ("ltree", "treebeard MP", "treebeard NS"):
            said = _ask(peers.get("trees"), name)
            if "seconds" in said:
                times.setdefault(name, []).append(said["seconds"])
            else:
                times.setdefault(f"{name} (missing: {said['missing']})", [])
    ours = times["ours: one update"]
    rows = []
    for name, found in times.items():
        if not found:
            rows.append([name, "", ""])
            continue
        ratio = statistics.median(theirs / mine for theirs, mine in zip(found, ours, strict=False))
        rows.append([name, f"{statistics.median(found) * 1000:,.0f}", f"{ratio:.1f}x"])
    return [
        "## Moves of a subtree",
        f"{below + 1:,} categories of {source} move from one parent to another and back; median of {rounds}.",
        report.table(["how", "ms", "time against ours"], rows),
    ]


def _paths() -> tuple[list[list[str]], str]:
    given = os.environ.get("SQUINNEY_TEST_DATA")
    folders = [Path(given)] if given else [up / "shared" / "data" for up in list(HERE.parents)[1:3]]
    file = next((one for folder in folders if (one := folder / "taxonomy.txt.gz").is_file()), None)
    if file is None:
        made = [[f"n{number % 40}", f"n{number % 40}-{number % 400}", f"n{number}"] for number in range(14_000)]
        return _arranged(made), "a made-up tree of 3 levels"
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        real = [line.split(" : ", 1)[1].strip().split(" > ") for line in lines if " : " in line and line[0] != "#"]
    return _arranged(real), "a real product taxonomy"


def _arranged(paths: list[list[str]]) -> list[list[str]]:
    """Ten thousand of them below one node, which has two parents to move between."""
    return [["a"], ["b"], *(["a", "x", *path] for path in paths[: SUBTREE - 1]), *paths[SUBTREE - 1 :]]


def _turn(where: dict[str, str]) -> str:
    target = where["at"]
    where["at"] = "a" if target == "b" else "b"
    return target


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _node_by_node(db: Db, slug: str, parent: str) -> None:
    """As the book does it: each descendant's array is built from its parent's and written by itself."""
    tree = db["categories"]
    above = tree.find_one({"slug": parent}) or {}
    node = tree.find_one({"slug": slug}) or {}
    ancestors = CATEGORY_TREE.under(above)
    tree.update_one({"_id": node["_id"]}, {"$set": {"parent": above["_id"], "ancestors": ancestors}})
    waiting = [{**node, "ancestors": ancestors}]
    while waiting:
        one = waiting.pop()
        for child in tree.find({"parent": one["_id"]}):
            ancestors = CATEGORY_TREE.under(one)
            tree.update_one({"_id": child["_id"]}, {"$set": {"ancestors": ancestors}})
            waiting.append({**child, "ancestors": ancestors})


# ---- browsing ----


def _browsing(db: Db, rounds: int, seconds: float, count: int) -> list[str]:
    _fill(db, count)
    catalog = Catalog(db)
    genres = [f"genre {number}" for number in range(20)]
    chance = random.Random(1)
    sort = [("details.issue_date", -1), ("_id", -1)]

    def ours(thread: int) -> None:
        assert len(catalog.find(genre=chance.choice(genres), sort="newest", limit=50).items) == 50

    def raw(thread: int) -> None:
        assert len(list(db["products"].find({"details.genre": chance.choice(genres)}).sort(sort).limit(50))) == 50

    hand, mine = compare(
        [Contender("raw cursor", raw), Contender("find", ours)], threads=1, rounds=rounds, seconds=seconds
    )
    rows = [
        [one.name, f"{one.rate:,.0f}", f"{one.percentile(0.5):.2f}", f"{one.percentile(0.99):.2f}"]
        for one in (hand, mine)
    ]
    by = ["type", "genre", "price"]
    facets = statistics.median(_timed(lambda: catalog.facets(by=by, genre="genre 3")) for _ in range(3))
    ratio = mine.percentile(0.99) / hand.percentile(0.99)
    return [
        "## Browsing",
        f"Fifty products of a genre, newest first, of {count:,}: p99 {ratio:.2f}x the raw driver's.",
        report.table(["how", "pages/s", "p50 ms", "p99 ms"], rows),
        f"Facets by {', '.join(by)} over the {count // 20:,} products of one genre: one round trip, {facets:.2f} s.",
    ]


def _fill(db: Db, count: int) -> None:
    """Products with the indexes that this measures; the others would only make the filling slower."""
    wanted = [
        index for index in commerce.search.PRODUCTS.indexes if index.keys[0][0] in ("details.genre", "title_lower")
    ]
    db["products"].drop()
    start = datetime(1950, 1, 1, tzinfo=UTC)
    for first in range(0, count, 10_000):
        db["products"].insert_many(
            [_product(number, start) for number in range(first, min(count, first + 10_000))], ordered=False
        )
    schema.apply(db, [replace(commerce.search.PRODUCTS, indexes=wanted)])


def _product(number: int, start: datetime) -> dict[str, Any]:
    pricing = {"list": 1_000, "retail": 500 + number % 500, "savings": 500, "pct_savings": 50, "currency": "EUR"}
    details = {"genre": [f"genre {number % 20}"], "issue_date": start + timedelta(hours=number * 7919 % 600_000)}
    common = {"type": "Film", "title": f"Film {number}", "title_lower": f"film {number}", "category_ids": []}
    return {"_id": f"p{number}", **common, "pricing": pricing, "details": details, "properties": [], "version": 1}


# ---- peers ----


@contextmanager
def _peers() -> Iterator[dict[str, Any]]:
    """The peers' processes, in an environment of their own that `SQUINNEY_PEERS` names."""
    python = os.environ.get(PEERS, "")
    with ExitStack() as stack:
        socket = stack.enter_context(private_postgres())
        if not python or socket is None:
            why = (
                "no PostgreSQL" if socket is None else f"{PEERS} names no Python with django-oscar and django-treebeard"
            )
            yield {"trees": why, "oscar": why}
            return
        paths = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "paths"
        paths.write_text("\n".join(json.dumps(path) for path in _paths()[0]), encoding="utf-8")
        commands = {
            "trees": ["_commerce_peers.py", str(socket), str(paths)],
            "oscar": ["_commerce_oscar.py", str(socket)],
        }
        yield {
            name: stack.enter_context(_process([python, "-P", str(HERE / c[0]), *c[1:]]))
            for name, c in commands.items()
        }


@contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def _ask(peer: Any, line: str) -> dict[str, Any]:
    """What a peer says; why it is missing, where it is."""
    if not isinstance(peer, subprocess.Popen):
        return {"missing": str(peer)}
    try:
        assert peer.stdin
        assert peer.stdout
        peer.stdin.write(line + "\n")
        peer.stdin.flush()
        return dict(json.loads(peer.stdout.readline()))
    except (OSError, ValueError):
        return {"missing": "its process ended"}
