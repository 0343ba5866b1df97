"""25 visitors who open `/shop` at the same moment, in a shop with 100,000 products: all of them must be served."""

from __future__ import annotations

import http.client
import os
import secrets
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from urllib.parse import urlsplit

from bench import report
from bench.commerce_find import GENRES, product
from bench.http import served
from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

NAME = "bench_shop"
PRODUCTS = int(os.environ.get("SQUINNEY_BENCH_SHOP_PRODUCTS", "100000"))
VISITORS = 25
MAX_SECONDS = 60
VIEWED = ["/shop", "/shop?genre=genre+3", "/shop?words=777+7777", "/shop?type=Film&sort=newest"]


@dataclass(frozen=True)
class View:
    """One page that a visitor received."""

    path: str
    status: int
    seconds: float
    has_products: bool


def run(connection: Connection, *, products: int = PRODUCTS) -> None:
    """Fill a shop, send all visitors at once, and write the page; fail if a visitor was refused."""
    uri = connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]
    db = connection.client[NAME]
    connection.client.drop_database(NAME)
    try:
        _fill(db, products)
        environment = {"SQUINNEY_SECRET": secrets.token_hex(32), "PORT": "0"}
        command = ["-m", "squinney.service.commands.main", "--uri", uri, "--database", NAME, "serve", "--no-demo"]
        with served(command, environment) as (url, _):
            views = _visit(url)
    finally:
        connection.client.drop_database(NAME)
    _write(views, products, connection.client.admin.command("buildInfo")["version"])
    refused = [view for view in views if view.status != 200 or not view.has_products]
    assert not refused, refused[:5]


def _fill(db: Db, count: int) -> None:
    for first in range(0, count, 10_000):
        many = [product(number) for number in range(first, min(count, first + 10_000))]
        db["commerce.products"].insert_many(many, ordered=False)
    schema.apply(db, assembly.collections())


def _visit(url: str) -> list[View]:
    """Let all visitors begin at the same moment with the shop's first page, whose facets are not cached yet."""
    _view(url, "/healthz")  # wait until the process has started
    together = Barrier(VISITORS)

    def visitor(number: int) -> list[View]:
        together.wait()
        return [_view(url, path) for path in VIEWED]

    with ThreadPoolExecutor(VISITORS) as threads:
        return [view for views in threads.map(visitor, range(VISITORS)) for view in views]


def _view(url: str, path: str) -> View:
    host = urlsplit(url)
    connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=MAX_SECONDS)
    began = time.perf_counter()
    try:
        connection.request("GET", path, headers={"Accept": "text/html"})
        response = connection.getresponse()
        body = response.read()
        return View(path, response.status, time.perf_counter() - began, b"/shop/products/" in body)
    finally:
        connection.close()


def _write(views: list[View], products: int, version: str) -> None:
    rows = []
    for path in VIEWED:
        times = sorted(view.seconds for view in views if view.path == path)
        statuses = Counter(view.status for view in views if view.path == path)
        responses = ", ".join(f"{count} x {status}" for status, count in statuses.items())
        rows.append([f"`{path}`", responses, f"{times[len(times) // 2]:.2f}", f"{times[-1]:.2f}"])
    parts = [
        f"{VISITORS} visitors open a shop that has just started, all at the same moment. The shop has {products:,} "
        f"products in {len(GENRES)} genres. Each visitor opens {len(VIEWED)} pages, one after another. One process of "
        "`squinney serve` responds; the visitors run on the same machine.",
        report.table(["page", "responses", "median s", "slowest s"], rows),
        "Every page contains its products. One request counts the facets of a page for all visitors, and it counts at "
        "most 10,000 products.",
        report.machine(version),
    ]
    report.write_page("shop_visitors", "The shop: 25 visitors at once", parts)
    print("\n\n".join(parts))
