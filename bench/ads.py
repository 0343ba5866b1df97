"""Choosing ads from memory, compared with the book's find, group and sort; settling beacons together; over HTTP."""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

import psutil
from pymongo.client_session import ClientSession

from bench import _ads_processes, report
from bench.harness import Contender, Round, Series, compare
from bench.http import served
from squinney import assembly
from squinney.ads import AdNetwork
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db, Document

SIZES = (10, 1_000, 10_000)
WORDS = [f"word{number}" for number in range(1_000)]
CAP = {"impressions": 3, "per_seconds": 86_400}
CREATIVE = {"kind": "text", "title": "t", "text": "", "url": "/"}
TOGETHER = 300
MANY = 100_000
NAME = "bench_ads"
HTTP_THREADS = 8
PROCESS_ROUNDS = 40


def run(connection: Connection, *, rounds: int = 5, seconds: float = 1.0) -> None:
    """Measure, and write the page."""
    db = connection.client[NAME]
    connection.client.drop_database(NAME)
    schema.apply(db, assembly.collections())
    with AdNetwork(db, secret=b"bench") as network:
        _fill(db, network)
        choices = [
            (size, words, compare(_choosing(db, network, size, words), threads=1, rounds=rounds, seconds=seconds))
            for size in SIZES
            for words in (0, 3)
        ]
        capped = compare(_with_profile(db, network), threads=1, rounds=rounds, seconds=seconds)
        settled = compare(_settling(network), threads=1, rounds=rounds, seconds=seconds)
        prepared = _settling_alone(db, network, rounds, seconds)
    over_http = _over_http(connection, db, rounds, seconds)
    mebibytes = _memory(db)
    processes = _ads_processes.parts(_uri(connection), NAME, PROCESS_ROUNDS)
    version = connection.client.admin.command("buildInfo")["version"]
    connection.client.drop_database(NAME)
    _write(choices, capped, settled, prepared, over_http, mebibytes, processes, version, rounds, seconds)


def _fill(db: Db, network: AdNetwork) -> None:
    chance, now = random.Random(1), datetime.now(UTC)
    pricing, budget = {"model": "cpm", "bid": 1}, {"total": 10**12, "currency": "EUR"}
    network.create_campaign("bench", "Larch", pricing=pricing, budget=budget)
    network.create_campaign("capped", "Larch", pricing=pricing, budget=budget, cap=CAP)
    network.place("capped", "news", "capped", {"unit": "u", "creative": CREATIVE})
    for size in SIZES:
        _fill_zone(db, size, chance, now)


def _fill_zone(db: Db, size: int, chance: random.Random, now: datetime) -> None:
    placements: list[Document] = [
        {
            "_id": {"site": "news", "zone": str(size), "ad_unit": f"u{number}"},
            "campaign_id": "bench",
            "keywords": chance.sample(WORDS, 5),
            "ecpm": chance.randrange(1, 10**6),
            "weight": 1,
            "creative": CREATIVE,
            "cap": None,
            "active": True,
            "changed_at": now,
        }
        for number in range(size)
    ]
    db["ads.placements"].insert_many(placements, ordered=False)


def _by_the_book(db: Db, size: int, words: list[str]) -> Document:
    """Read the zone, score every ad, sort and take the best. The book sorts in the wrong direction; this does not."""
    placements = list(db["ads.placements"].find({"_id.site": "news", "_id.zone": str(size)}))
    scored = [
        (placement["ecpm"] * math.log(1.1 + len(set(words) & set(placement["keywords"]))), placement)
        for placement in placements
    ]
    return sorted(scored, key=lambda pair: pair[0], reverse=True)[0][1]


def _choosing(db: Db, network: AdNetwork, size: int, words: int) -> list[Contender]:
    chance = random.Random(2)
    return [
        Contender("the book's way", lambda _: _by_the_book(db, size, chance.sample(WORDS, words)) and None),
        Contender("choose", lambda _: network.choose("news", str(size), keywords=chance.sample(WORDS, words)) and None),
    ]


def _with_profile(db: Db, network: AdNetwork) -> list[Contender]:
    """Compare a choice under a cap with the profile update that it needs, and with one read."""
    chance = random.Random(3)

    def user() -> str:
        return f"user {chance.randrange(100_000)}"

    def push(_: int) -> None:
        shown = {"$push": {"shown.capped.at": {"$each": [datetime.now(UTC)], "$slice": -CAP["impressions"]}}}
        db["raw_users"].find_one_and_update({"_id": user()}, shown, upsert=True)

    return [
        Contender("find_one_and_update of a profile", push),
        Contender("find_one of a profile", lambda _: db["ads.users"].find_one({"_id": user()}) and None),
        Contender("choose under a cap", lambda _: network.choose("news", "capped", user=user()) and None),
    ]


def _memory(db: Db) -> float:
    """Return the memory of a process for a zone with `MANY` ads, in MiB."""
    _fill_zone(db, MANY, random.Random(4), datetime.now(UTC))
    process = psutil.Process()
    with AdNetwork(db, secret=b"bench") as network:
        network.choose("news", "10")
        before = process.memory_info().rss
        network.choose("news", str(MANY), keywords=[WORDS[0]])
        return float(process.memory_info().rss - before) / 2**20


def _uri(connection: Connection) -> str:
    return connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]


def _over_http(connection: Connection, db: Db, rounds: int, seconds: float) -> list[Series]:
    uri = _uri(connection)
    _, key = assembly.assemble(db).services["identity"]["keys"].create("bench", ["ads:write"])
    no_limits = {"SQUINNEY_RATE_PER_KEY": "0", "SQUINNEY_RATE_PER_ADDRESS": "0"}
    environment = {"SQUINNEY_SECRET": secrets.token_hex(32), "PORT": "0", **no_limits}
    serve = ["-m", "squinney.service.commands.main", "--uri", uri, "--database", NAME, "serve", "--no-demo"]
    with served(serve, environment) as (url, _):
        send = _client(url, key)

        def choose(_: int) -> str:
            chosen = send("POST", "/api/ads/choose", {"site": "news", "zone": "1000"})
            return str(json.loads(chosen)[0]["serve_id"])

        contenders = [
            Contender("choose", lambda thread: choose(thread) and None),
            Contender("choose and beacon", lambda thread: send("GET", f"/ads/seen/{choose(thread)}") and None),
        ]
        return compare(contenders, threads=HTTP_THREADS, rounds=rounds, seconds=seconds)


def _client(url: str, key: str) -> Callable[..., bytes]:
    """Return a function that sends requests, with one persistent connection for each thread."""
    host, local = urlsplit(url), threading.local()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def send(method: str, path: str, body: object = None) -> bytes:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(host.hostname or "", host.port)
        sent = json.dumps(body) if body is not None else None
        local.connection.request(method, path, body=sent, headers=headers)
        response = local.connection.getresponse()
        received: bytes = response.read()
        assert response.status == 200, received
        return received

    return send


def _serves(network: AdNetwork, count: int = TOGETHER) -> list[str]:
    return [network.choose("news", "10")[0].serve_id for _ in range(count)]


def _settling(network: AdNetwork) -> list[Contender]:
    """Settle impressions; the time includes the choices."""
    return [
        Contender("one by one", lambda _: network.impression(_serves(network, 1)[0]) and None),
        Contender(f"{TOGETHER} together", lambda _: network.impressions(_serves(network)) and None),
    ]


def _settling_alone(db: Db, network: AdNetwork, rounds: int, seconds: float) -> list[Series]:
    """Settle serves chosen before, and write the same documents with the plain driver, in alternate batches."""
    raw: Document = {"_id": "raw", "campaign_id": "raw", "amount": 10**15, "committed": 10**15, "spent": 0}
    for name in ("ads.budgets", "ads.leases"):
        db[name].insert_one(raw)
    plain, ours = Series("plain driver"), Series("impressions")
    for _ in range(rounds):
        spent: dict[str, list[float]] = {plain.name: [], ours.name: []}
        until = time.perf_counter() + 2 * seconds
        while time.perf_counter() < until:
            documents = [_raw_serve() for _ in range(TOGETHER)]
            spent[plain.name].append(_timed_once(partial(_write_plainly, db, documents)))
            spent[ours.name].append(_timed_once(partial(network.impressions, _serves(network))))
        for series in (plain, ours):
            series.rounds.append(Round(len(spent[series.name]), sum(spent[series.name]), spent[series.name]))
    return [plain, ours]


def _timed_once(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _raw_serve() -> Document:
    now = datetime.now(UTC)
    return {"_id": secrets.token_urlsafe(15), "campaign_id": "raw", "at": now, "charged": 1, "impressions": now}


def _write_plainly(db: Db, documents: list[Document]) -> None:
    """Write the serves, the budget, the lease and the counter in one transaction of the plain driver."""
    counter = {"campaign_id": "raw", "day": datetime(2026, 1, 1, tzinfo=UTC)}
    counts = {"impressions": len(documents), "spend": len(documents)}

    def write(session: ClientSession) -> None:
        db["ads.budgets"].update_one({"_id": "raw"}, {"$inc": {"spent": len(documents)}}, session=session)
        db["ads.leases"].update_one({"_id": "raw"}, {"$inc": {"amount": -len(documents)}}, session=session)
        db["ads.counters"].update_one({"_id": "raw", **counter}, {"$inc": counts}, upsert=True, session=session)
        db["ads.serves"].insert_many(documents, session=session)

    with db.client.start_session() as session:
        session.with_transaction(write)


def _write(
    choices: list[tuple[int, int, list[Series]]],
    capped: list[Series],
    settled: list[Series],
    prepared: list[Series],
    over_http: list[Series],
    mebibytes: float,
    processes: list[str],
    version: str,
    rounds: int,
    seconds: float,
) -> None:
    head = ["ads in the zone", "keywords", "how", "choices/s", "p50 us", "p99 us", "p99.9 us", "times the book's way"]
    rows = [
        [
            f"{size:,}",
            str(words),
            contender.name,
            f"{contender.rate:,.0f}",
            f"{contender.percentile(0.5) * 1000:,.0f}",
            f"{contender.percentile(0.99) * 1000:,.0f}",
            f"{contender.percentile(0.999) * 1000:,.0f}",
            f"{contender.ratio_to(series[0]):,.0f}x",
        ]
        for size, words, series in choices
        for contender in series
    ]
    single, together = settled
    plain, chosen_before = prepared
    ratio = together.ratio_to(single) * TOGETHER
    per_serve = [
        ["one by one, time includes choices", f"{single.rate:,.0f}", "1x", ""],
        _settled(f"{TOGETHER} together, time includes choices", together, f"{ratio:,.0f}x"),
        _settled(f"{TOGETHER} together, chosen before", chosen_before, "", f"{chosen_before.ratio_to(plain):.2f}x"),
        _settled(f"{TOGETHER} with the plain driver", plain, "", "1x"),
    ]
    parts = [
        report.machine(version),
        f"One process, one thread; {rounds} interleaved rounds of {seconds:g} s. Only the ratios count."
        f" Load average at the end {os.getloadavg()[0]:.0f}.",
        "## Choosing",
        report.table(head, rows),
        f"A process needs {mebibytes:,.0f} MiB for {MANY:,} ads.",
        "## Choosing with a profile",
        report.table(["how", "a second", "p50 us", "p99 us", "times the update"], _timed(capped, 1000)),
        "## Settling impressions of one campaign",
        report.table(["how", "settled/s", "times one by one", "times the plain driver"], per_serve),
        "The plain driver: one transaction that inserts as many documents and changes a budget, a lease and a counter.",
        "## Over HTTP",
        f"One `squinney serve`, {HTTP_THREADS} connections.",
        report.table(["how", "a second", "p50 ms", "p99 ms", "rate"], _timed(over_http, 1)),
        *processes,
    ]
    report.write_page("ads", "Ads", parts)


def _settled(name: str, series: Series, to_single: str, to_plain: str = "") -> list[str]:
    return [name, f"{series.rate * TOGETHER:,.0f}", to_single, to_plain]


def _timed(series: list[Series], scale: int) -> list[list[str]]:
    return [
        [
            contender.name,
            f"{contender.rate:,.0f}",
            f"{contender.percentile(0.5) * scale:,.1f}",
            f"{contender.percentile(0.99) * scale:,.1f}",
            f"{contender.ratio_to(series[0]):.2f}x",
        ]
        for contender in series
    ]
