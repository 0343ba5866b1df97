"""Compares every number that the service shows with the number that plain Python computes from stored documents."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from starlette.testclient import TestClient
from tests.sizes import IN_FULL, a_tenth_of, heavy

from squinney import assembly
from squinney.analytics import Rollups, Sessions
from squinney.errors import SquinneyError
from squinney.ledger import InsufficientFunds

ZONES = [
    "UTC",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Havana",
    "Pacific/Apia",
    "Asia/Kathmandu",
]
START, END = datetime(2011, 9, 1, tzinfo=UTC), datetime(2012, 5, 1, tzinfo=UTC)  # Apia skips a day in between
GENRES, TYPES, BRANDS = ["Jazz", "Bop", "Émile", "rock"], ["Film", "Audio Album", "TV"], ["Acme", "acme", "Ö", None]
DECIMALS = {"EUR": 2, "JPY": 0, "KWD": 3, "XAF": 0}


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.node.name)


def everything(site: TestClient, path: str, **query: Any) -> list[Any]:
    """Return the items of all pages of a list."""
    items: list[Any] = []
    cursor = None
    while True:
        response = site.get(path, params={**query, "limit": 37, **({"cursor": cursor} if cursor else {})})
        assert response.status_code == 200, response.text
        items += response.json()["items"]
        if not (cursor := response.json()["next"]):
            return items


def written(amount: int, currency: str) -> str:
    """Format an amount of money, with code that is independent of ours."""
    digits = DECIMALS[currency]
    text = f"{abs(amount):0{digits + 1}d}"
    whole, part = (text[:-digits], "." + text[-digits:]) if digits else (text, "")
    return f"{'-' if amount < 0 else ''}{int(whole):,}{part} {currency}"


# ---- the shop ----


def random_products(chance: random.Random, category_ids: list[str], count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        full = chance.choice([0, 1, 99, 1_000, chance.randrange(10**9)])
        details: dict[str, Any] = {"genre": chance.sample(GENRES, chance.randrange(4))}
        if chance.random() < 0.7:
            details["issue_date"] = f"{chance.randrange(1900, 2030)}-03-0{chance.randrange(1, 9)}"
        product = {
            "_id": f"sku/{number}",
            "type": (kind := chance.choice(TYPES)),
            "title": chance.choice(["Up", "Émile", "zebra", "Zebra 東京"]) + f" {number % 50}",
            "category_ids": chance.sample(category_ids, chance.randrange(4)),
            "pricing": {"list": full, "retail": chance.randrange(full + 2), "currency": chance.choice([*DECIMALS])},
            "details": {**details, **({"actor": chance.sample("ABCD", 2)} if kind != "Audio Album" else {})},
            "properties": {"Size": chance.choice([1, 2.5, "1"]), "Used": chance.random() < 0.5},
        }
        yield product if (brand := chance.choice(BRANDS)) is None else {**product, "brand": brand}


def field(product: Any, path: str) -> Any:
    for part in path.split("."):
        product = product.get(part) if product else None
    return product


SORTS = {
    "title": ("title_lower", 1),
    "-title": ("title_lower", -1),
    "price": ("pricing.retail", 1),
    "-price": ("pricing.retail", -1),
    "discount": ("pricing.pct_savings", -1),
    "newest": ("details.issue_date", -1),
    "oldest": ("details.issue_date", 1),
}
FACETS = {
    "type": lambda p: [p["type"]],
    "brand": lambda p: [p["brand"]] if p.get("brand") else [],
    "category": lambda p: p["category_ids"],
    "genre": lambda p: p["details"].get("genre", []),
    "actor": lambda p: p["details"].get("actor", []),
    "properties": lambda p: [(pair["n"], type(pair["v"]).__name__, pair["v"]) for pair in p["properties"]],
}


def below(categories: list[Any], slug: str) -> set[str]:
    """Return the ids of a category and its descendants, found by parent pointers."""
    inside = {category["_id"] for category in categories if category["slug"] == slug}
    while more := {c["_id"] for c in categories if c["parent"] in inside} - inside:
        inside |= more
    return inside


@heavy
def test_products_and_facets(site: TestClient, systems: assembly.Assembled, chance: random.Random) -> None:
    services, db = systems.services["commerce"], systems.db
    slugs: list[str] = []
    for number in range(30):
        slugs.append(services["categories"].add(f"C {number}", parent=chance.choice([None, *slugs[-8:]]))["slug"])
    ids = {category["_id"]: category["slug"] for category in db["commerce.categories"].find()}
    for product in random_products(chance, list(ids), a_tenth_of(1_000)):
        services["catalog"].add(product)
    stored = list(db["commerce.products"].find())
    categories = list(db["commerce.categories"].find())
    for product in stored:
        pricing = product["pricing"]
        assert pricing["savings"] == max(0, pricing["list"] - pricing["retail"])
        assert pricing["pct_savings"] == (pricing["savings"] * 100 // pricing["list"] if pricing["list"] else 0)
    filters: list[tuple[dict[str, Any], Any]] = [
        ({}, lambda p: True),
        ({"type": "Film"}, lambda p: p["type"] == "Film"),
        ({"genre": "Émile"}, lambda p: "Émile" in p["details"].get("genre", [])),
        ({"genre": "Jazz", "type": "TV"}, lambda p: p["type"] == "TV" and "Jazz" in p["details"].get("genre", [])),
        ({"category": slugs[3]}, lambda p: slugs[3] in [ids[one] for one in p["category_ids"]]),
        ({"actor": "C"}, lambda p: "C" in p["details"].get("actor", [])),
        ({"property": "Used:true"}, lambda p: {"n": "Used", "v": True} in p["properties"]),
        ({"property": "Size:1"}, lambda p: any(pair["n"] == "Size" and pair["v"] == 1 for pair in p["properties"])),
        ({"property": 'Size:"1"'}, lambda p: {"n": "Size", "v": "1"} in p["properties"]),
        ({"price_from": 99, "price_to": 5_000}, lambda p: 99 <= p["pricing"]["retail"] <= 5_000),
        ({"discount_over": 50}, lambda p: p["pricing"]["pct_savings"] > 50),
        ({"title_prefix": "émile 1"}, lambda p: p["title"].startswith("Émile 1")),
    ]
    for given, matches in filters:
        wanted = [product for product in stored if matches(product)]
        found = everything(site, "/api/commerce/products", **given)
        assert Counter(p["id"] for p in found) == Counter(p["_id"] for p in wanted), given
        facets = site.get("/api/commerce/facets", params={**given, "by": list(FACETS)}).json()
        assert facets["total"] == len(wanted), given
        for name, values in FACETS.items():
            counted = Counter(value for product in wanted for value in values(product))
            rows = [(_plain(row["value"]), row["count"]) for row in facets[name]]
            assert all(counted[value] == count for value, count in rows), (given, name, rows, counted)
            assert sorted((count for _, count in rows), reverse=True) == sorted(counted.values(), reverse=True)[:20]
        prices = site.get("/api/commerce/facets", params={**given, "by": "price"}).json()["price"]
        assert sum(row["count"] for row in prices) == len(wanted), given
    for sort, (path, direction) in SORTS.items():
        keys = [(field(p, path) is not None, field(p, path) or 0, p["_id"]) for p in stored]
        order = [key[2] for key in sorted(keys, key=_ordered, reverse=direction < 0)]
        assert [p["id"] for p in everything(site, "/api/commerce/products", sort=sort)] == order, sort
        inside = below(categories, slugs[0])
        within = {p["_id"] for p in stored if inside & set(p["category_ids"])}
        listed = [p["id"] for p in everything(site, f"/api/commerce/categories/{slugs[0]}/products", sort=sort)]
        assert listed == [sku for sku in order if sku in within], sort
    page = site.get("/shop", params={"category": slugs[0]}, headers={"Accept": "text/html"}).text
    assert f">{len(within):,} product" in page
    page = site.get("/shop", headers={"Accept": "text/html"}).text
    assert f">{len(stored):,} product" in page
    for kind, count in Counter(p["type"] for p in stored).items():
        assert re.search(rf">{kind}</a> <span class=\"quiet\">{count:,}<", page), kind
    text = Counter(p["_id"] for p in stored if "up" in p["title"].lower().split())
    assert Counter(p["id"] for p in everything(site, "/api/commerce/products", words="up")) == text


def _ordered(key: tuple[bool, Any, str]) -> Any:
    """Return a sort key that orders text by its UTF-8 bytes, as the server does."""
    given, value, sku = key
    return given, value.encode() if isinstance(value, str) else value, sku.encode()


def _plain(value: Any) -> Any:
    return (value["n"], type(value["v"]).__name__, value["v"]) if isinstance(value, dict) else value


@heavy
def test_carts_orders_and_stock(site: TestClient, systems: assembly.Assembled, chance: random.Random) -> None:
    services = systems.services["commerce"]
    carts, orders, inventory = services["carts"], services["orders"], services["inventory"]
    skus = {currency: [f"{currency}-{number}" for number in range(4)] for currency in DECIMALS}
    for currency, several in skus.items():
        for sku in several:
            price = chance.choice([0, 1, 999, 10**9])
            pricing = {"list": price, "retail": price, "currency": currency}
            services["catalog"].add({"_id": sku, "type": "T", "title": sku, "pricing": pricing})
            inventory.receive(sku, chance.randrange(1, 200))
    opened: list[tuple[str, str]] = []
    for step in range(a_tenth_of(2_000)):
        if step % 5 == 0:
            currency = chance.choice([*DECIMALS])
            opened.append((carts.new(currency=currency, customer=chance.choice(["ann", "bob"]))["_id"], currency))
        cart_id, currency = chance.choice(opened[-20:])
        sku = chance.choice(skus[currency])
        with suppress(SquinneyError):
            match chance.randrange(9):
                case 0 | 1 | 2:
                    carts.add_item(cart_id, sku, chance.randrange(1, 9))
                case 3:
                    carts.set_quantity(cart_id, sku, chance.randrange(5))
                case 4:
                    services["catalog"].patch(sku, {"pricing": {"list": (p := chance.randrange(10**7)), "retail": p}})
                case 5:
                    carts.abandon(cart_id)
                case 6 | 7:
                    carts.checkout(cart_id, key="k")
                case 8:
                    inventory.adjust(sku, chance.choice([-3, 4]), "counted")
                    orders.cancel(cart_id)
    _check_stock(site, systems)
    _check_orders(site, systems)


def _check_stock(site: TestClient, systems: assembly.Assembled) -> None:
    db = systems.db
    moved: dict[str, Counter[str]] = defaultdict(Counter)
    for movement in db["commerce.movements"].find():
        moved[movement["sku"]][movement["kind"]] += movement["qty"]
    in_carts: Counter[str] = Counter()
    for cart in db["commerce.carts"].find({"status": {"$in": ["active", "pending"]}}):
        in_carts.update({line["sku"]: line["qty"] for line in cart["items"]})
    ordered: Counter[str] = Counter()
    for order in db["commerce.orders"].find({"status": "placed"}):
        ordered.update({line["sku"]: line["qty"] for line in order["items"]})
    page = site.get("/shop/admin", headers={"Accept": "text/html"}).text
    for sku in moved:
        kinds = moved[sku]
        available = sum(kinds.values()) - in_carts[sku]
        level = site.get(f"/api/commerce/stock/{sku}").json()
        assert (level["qty"], level["carted"], level["sold"]) == (available, in_carts[sku], ordered[sku]), sku
        assert -(kinds["sold"] + kinds["restocked"]) == ordered[sku], sku
        assert sum(m["qty"] for m in everything(site, f"/api/commerce/stock/{sku}/movements")) == sum(kinds.values())
        row = re.search(rf'sku={sku}".*?</tr>', page, re.DOTALL)
        numbers = re.findall(r'data-label="\w+">([\d,]+)<', row[0]) if row else []
        assert [int(number.replace(",", "")) for number in numbers] == [available, in_carts[sku], ordered[sku]], sku


def _check_orders(site: TestClient, systems: assembly.Assembled) -> None:
    stored = {order["_id"]: order for order in systems.db["commerce.orders"].find()}
    assert stored
    assert {order["id"] for order in everything(site, "/api/commerce/orders")} == stored.keys()
    newest = sorted(stored.values(), key=lambda order: (order["placed_at"], order["_id"]), reverse=True)
    hers = [order["_id"] for order in newest if order.get("customer") == "ann"]
    assert [order["id"] for order in everything(site, "/api/commerce/orders", customer="ann")] == hers
    for order_id, order in stored.items():
        total = sum(line["price"] * line["qty"] for line in order["items"])
        assert site.get(f"/api/commerce/orders/{order_id}").json()["total"] == total
        payment = systems.db["commerce.payments"].find_one({"_id": order["payment_id"]})
        assert (payment["amount"], payment["currency"]) == (total, order["currency"])
        charge = systems.db["commerce.test_charges"].find_one({"_id": order["payment_id"]})
        if total:
            assert charge["state"] == ("captured" if order["status"] == "placed" else "refunded")
    for order in newest[:10]:
        page = site.get(f"/shop/orders/{order['_id']}", headers={"Accept": "text/html"}).text
        assert f"<dd>{written(order['total'], order['currency'])}</dd>" in page
        for line in order["items"]:
            assert written(line["price"] * line["qty"], order["currency"]) in page


# ---- the ledger ----


@heavy
def test_balances_and_statements(site: TestClient, systems: assembly.Assembled, chance: random.Random) -> None:
    ledger, db = systems.services["ledger"]["accounts"], systems.db
    accounts = {
        currency: [ledger.open(currency, chance.randrange(10**6), name=f"{currency} {n}")["_id"] for n in range(5)]
        for currency in DECIMALS
    }
    for _ in range(a_tenth_of(2_000)):
        currency = chance.choice([*DECIMALS])
        src, dst = chance.sample(accounts[currency], 2)
        with suppress(InsufficientFunds):
            ledger.transfer(src, dst, chance.choice([1, 999, chance.randrange(1, 10**6)]))
    entries: dict[str, list[Any]] = defaultdict(list)
    for entry in db["ledger.entries"].find():
        entries[entry["account_id"]].append(entry)
    for currency, several in accounts.items():
        for account_id in several:
            balance = sum(entry["amount"] for entry in entries[account_id])
            assert site.get(f"/api/ledger/accounts/{account_id}").json()["balance"] == balance
            statement = everything(site, f"/api/ledger/accounts/{account_id}/statement")
            assert Counter(entry["id"] for entry in statement) == Counter(e["_id"] for e in entries[account_id])
            sums = accumulate(entry["amount"] for entry in reversed(statement))
            assert [entry["balance"] for entry in reversed(statement)] == list(sums)
            page = site.get(f"/ledger/{account_id}", headers={"Accept": "text/html"}).text
            assert written(balance, currency) in page
        both = sum(entry["amount"] for account_id in several for entry in entries[account_id])
        assert site.get(f"/api/ledger/totals/{currency}").json()["total"] == both
        index = site.get("/ledger", headers={"Accept": "text/html"}).text
        assert f"<dt>in all accounts</dt><dd>{written(both, currency)}</dd>" in index


# ---- analytics ----


def local_key(at: datetime, unit: str, zone: str) -> Any:
    """Return the calendar unit that contains the time, computed with Python's `zoneinfo`."""
    here = at.astimezone(ZoneInfo(zone))
    day = here.date()
    if unit == "hour":
        return day, here.hour, here.utcoffset()
    return {"day": day, "week": day.isocalendar()[:2], "month": (day.year, day.month), "year": day.year}[unit]


def random_times(chance: random.Random, count: int) -> list[datetime]:
    """Return random times: half are spread evenly, half are near clock changes and the day that Apia skipped."""
    changes = ["2011-11-06T05", "2011-10-01T15", "2011-12-30T10", "2012-04-01T04"]
    around = [datetime.fromisoformat(f"{change}:00+00:00") for change in changes]
    span = int((END - START).total_seconds())
    spread = [START + timedelta(seconds=chance.randrange(span)) for _ in range(count // 2)]
    near = timedelta(hours=30).total_seconds()
    crowd = [chance.choice(around) + timedelta(seconds=chance.uniform(-near, near)) for _ in spread]
    return [at.replace(microsecond=at.microsecond // 1_000 * 1_000) for at in spread + crowd]


@heavy
def test_hits(site: TestClient, systems: assembly.Assembled, chance: random.Random) -> None:
    counted = [
        (at, chance.choice(["/", "/a"]), chance.randrange(1, 4)) for at in random_times(chance, a_tenth_of(2_000))
    ]
    systems.services["analytics"]["hits"].record_many([("s", page, at, count) for at, page, count in counted])
    for zone in ZONES:
        for unit in ("hour", "day", "week", "month"):
            query = {"site": "s", "page": "/", "by": unit, "time_zone": zone}
            query |= {"start": START.isoformat(), "end": END.isoformat()}
            points = site.get("/api/analytics/series", params=query).json()
            got = {datetime.fromisoformat(point["at"]): point["hits"] for point in points}
            assert [datetime.fromisoformat(point["at"]) for point in points] == sorted(got)
            assert sum(got.values()) == sum(count for _, page, count in counted if page == "/"), (zone, unit)
            if unit == "hour" and zone == "Australia/Lord_Howe":
                continue  # its half-hour shift gives two hours the same key here
            brute: Counter[Any] = Counter()
            for at, page, count in counted:
                if page == "/":
                    brute[local_key(at, unit, zone)] += count
            assert {local_key(at, unit, zone): hits for at, hits in got.items() if hits} == brute, (zone, unit)
    hour = datetime(2011, 11, 6, tzinfo=UTC)
    top: Counter[str] = Counter()
    for at, page, count in counted:
        if hour <= at < hour + timedelta(hours=31):
            top[page] += count
    bounds = {"start": hour.isoformat(), "end": (hour + timedelta(hours=31)).isoformat(), "site": "s"}
    assert site.get("/api/analytics/top", params=bounds).json() == [
        {"page": page, "hits": hits} for page, hits in top.most_common()
    ]
    page = site.get("/analytics/hits", params={"site": "s", "until": END.isoformat(), "days": 300}).text
    assert f"{sum(count for at, _, count in counted):,}" in page


@heavy
def test_events_rollups_and_visits(site: TestClient, systems: assembly.Assembled, chance: random.Random) -> None:
    log, db = systems.services["analytics"]["events"], systems.db
    events = [
        {
            "time": at,
            "host": chance.choice("hij"),
            "user_agent": chance.choice("ab"),
            "path": chance.choice(["/", "/a", "/ö"]),
            "bytes": chance.randrange(-1, 10**6) + 1,
            "status": chance.choice([200, 404, 500]),
            **({"user": "ann"} if chance.random() < 0.1 else {}),
        }
        for at in random_times(chance, a_tenth_of(2_000))
    ]
    for start in range(0, len(events), 1_000):
        assert log.record_many(events[start : start + 1_000]).failures == []
    bounds = {"start": START.isoformat(), "end": END.isoformat()}
    statuses = site.get("/api/analytics/events/by-status", params=bounds).json()
    inside = [event for event in events if START <= event["time"] < END]
    assert {int(status): count for status, count in statuses.items()} == Counter(e["status"] for e in inside)
    days = Counter((event["time"].date().isoformat(), event["path"]) for event in inside)
    rows = everything(site, "/api/analytics/events/by-day-and-path", **bounds)
    assert {(row["day"][:10], row["path"]): row["count"] for row in rows} == days
    for zone in ZONES if IN_FULL else ZONES[:1]:
        name = f"rollups_{zone.rpartition('/')[2].lower()}"
        rollups = Rollups(db, "analytics.events", "path", "bytes", "time", zone, name=name, finest="quarter")
        rollups.run()
        for level, unit in (("daily", "day"), ("weekly", "week"), ("monthly", "month"), ("yearly", "year")):
            groups: dict[Any, list[int]] = defaultdict(list)
            for event in events:
                if event["path"] == "/ö":
                    groups[local_key(event["time"], unit, zone)].append(event["bytes"])
            found = rollups.read(level, "/ö", START - timedelta(days=400), END + timedelta(days=400))
            got = {
                local_key(b["at"], unit, zone): (b["total"], b["count"], b["min"], b["max"], round(b["mean"], 6))
                for b in found
            }
            assert got == {
                key: (sum(v), len(v), min(v), max(v), round(sum(v) / len(v), 6)) for key, v in groups.items()
            }, (zone, level)
    Sessions(db).derive()
    visitors: dict[Any, list[datetime]] = defaultdict(list)
    for event in events:
        visitors[event["host"], event.get("user", (event["user_agent"],))].append(event["time"])
    brute: Counter[tuple[datetime, int, int]] = Counter()
    for times in visitors.values():
        visit: list[datetime] = []
        for at in [*sorted(times), None]:
            if visit and (at is None or at - visit[-1] >= timedelta(minutes=30)):
                brute[visit[0], int((visit[-1] - visit[0]).total_seconds()), len(visit)] += 1
                visit = []
            if at:
                visit.append(at)
    kept = db["analytics.visit_sessions"].find({"length": {"$exists": True}})
    assert Counter((v["ts"], v["length"], v["requests"]) for v in kept) == brute
