"""Visitors who come to `/shop` all at once, in a catalog of a hundred thousand products: each of them is served."""

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
LONGEST_SECONDS = 60
VIEWED = ["/shop", "/shop?genre=genre+3", "/shop?words=777+7777", "/shop?type=Film&sort=newest"]


@dataclass(frozen=True)
class View:
    """One page as a visitor got it."""

    path: str
    status: int
    seconds: float
    has_products: bool


def run(connection: Connection, *, products: int = PRODUCTS) -> None:
    """Fill a shop, let everybody in at once, and write the page; it fails where anybody was refused."""
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
        db["products"].insert_many(many, ordered=False)
    schema.apply(db, assembly.collections())


def _visit(url: str) -> list[View]:
    """Everybody begins at the same moment, with the shop's first page, of which nothing is kept yet."""
    _view(url, "/healthz")  # answered once the process has started: what comes earlier waits for that
    together = Barrier(VISITORS)

    def visitor(number: int) -> list[View]:
        together.wait()
        return [_view(url, path) for path in VIEWED]

    with ThreadPoolExecutor(VISITORS) as threads:
        return [view for views in threads.map(visitor, range(VISITORS)) for view in views]


def _view(url: str, path: str) -> View:
    host = urlsplit(url)
    connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=LONGEST_SECONDS)
    began = time.perf_counter()
    try:
        connection.request("GET", path, headers={"Accept": "text/html"})
        answer = connection.getresponse()
        body = answer.read()
        return View(path, answer.status, time.perf_counter() - began, b"/shop/products/" in body)
    finally:
        connection.close()


def _write(views: list[View], products: int, version: str) -> None:
    rows = []
    for path in VIEWED:
        taken = sorted(view.seconds for view in views if view.path == path)
        statuses = Counter(view.status for view in views if view.path == path)
        told = ", ".join(f"{count} x {status}" for status, count in statuses.items())
        rows.append([f"`{path}`", told, f"{taken[len(taken) // 2]:.2f}", f"{taken[-1]:.2f}"])
    parts = [
        f"{VISITORS} visitors who come at the same moment to a shop of {products:,} products in {len(GENRES)} genres "
        f"that was just started, each for {len(VIEWED)} pages, one after another. One process of `squinney serve`; the "
        "visitors run on the same machine.",
        report.table(["page", "answers", "median s", "slowest s"], rows),
        "Every page has its products. Facets are counted by one visitor for all, and no more than 10,000 products of "
        "a view.",
        report.machine(version),
    ]
    report.write_page("shop_visitors", "The shop: visitors all at once", parts)
    print("\n\n".join(parts))
