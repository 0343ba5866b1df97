"""Choosing ads from memory beside the book's find, group and sort; and beacons settled together and one by one."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime

from bench import report
from bench.harness import Contender, Series, compare
from squinney import ads, assembly
from squinney.ads import AdNetwork
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db, Document

SIZES = (10, 1_000, 10_000)
WORDS = [f"word{number}" for number in range(1_000)]
CREATIVE = {"kind": "text", "title": "t", "text": "", "url": "/"}
TOGETHER = 300


def run(connection: Connection, *, rounds: int = 9, seconds: float = 2.0) -> None:
    """Measure, and write the page."""
    db = connection.client["bench_ads"]
    connection.client.drop_database(db.name)
    schema.apply(db, [*assembly.CORE_COLLECTIONS, *ads.COLLECTIONS])
    with AdNetwork(db, secret=b"bench") as network:
        _fill(db, network)
        choices = [
            (size, words, compare(_choosing(db, network, size, words), threads=1, rounds=rounds, seconds=seconds))
            for size in SIZES
            for words in (0, 3)
        ]
        settled = compare(_settling(network), threads=1, rounds=rounds, seconds=seconds)
    version = connection.client.admin.command("buildInfo")["version"]
    connection.client.drop_database(db.name)
    _write(choices, settled, version, rounds, seconds)


def _fill(db: Db, network: AdNetwork) -> None:
    chance, now = random.Random(1), datetime.now(UTC)
    pricing, budget = {"model": "cpm", "bid": 1}, {"total": 10**12, "currency": "EUR"}
    network.create_campaign("bench", "Larch", pricing=pricing, budget=budget)
    for size in SIZES:
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
        db["ad_placements"].insert_many(placements)


def _by_the_book(db: Db, size: int, words: list[str]) -> Document:
    """Read the zone, score every ad, sort, take the best; the book's order, turned the right way round."""
    found = list(db["ad_placements"].find({"_id.site": "news", "_id.zone": str(size)}))
    scored = [(one["ecpm"] * math.log(1.1 + len(set(words) & set(one["keywords"]))), one) for one in found]
    return sorted(scored, key=lambda pair: pair[0], reverse=True)[0][1]


def _choosing(db: Db, network: AdNetwork, size: int, words: int) -> list[Contender]:
    chance = random.Random(2)
    return [
        Contender("the book's way", lambda _: _by_the_book(db, size, chance.sample(WORDS, words)) and None),
        Contender("choose", lambda _: network.choose("news", str(size), keywords=chance.sample(WORDS, words)) and None),
    ]


def _settling(network: AdNetwork) -> list[Contender]:
    def serves(count: int) -> list[str]:
        return [network.choose("news", "10")[0].serve_id for _ in range(count)]

    return [
        Contender("one by one", lambda _: network.impression(serves(1)[0]) and None),
        Contender(f"{TOGETHER} together", lambda _: network.impressions(serves(TOGETHER)) and None),
    ]


def _write(
    choices: list[tuple[int, int, list[Series]]], settled: list[Series], version: str, rounds: int, seconds: float
) -> None:
    head = ["ads in the zone", "keywords", "how", "choices/s", "p50 us", "p99 us", "times the book's way"]
    rows = [
        [
            f"{size:,}",
            str(words),
            one.name,
            f"{one.rate:,.0f}",
            f"{one.percentile(0.5) * 1000:,.0f}",
            f"{one.percentile(0.99) * 1000:,.0f}",
            f"{one.ratio_to(series[0]):,.0f}x",
        ]
        for size, words, series in choices
        for one in series
    ]
    single, together = settled
    ratio = together.ratio_to(single) * TOGETHER
    settling = [
        ["one by one", f"{single.rate:,.0f}", "1x"],
        [f"{TOGETHER} together", f"{together.rate * TOGETHER:,.0f}", f"{ratio:,.0f}x"],
    ]
    parts = [
        report.machine(version),
        f"One process, one thread; {rounds} interleaved rounds of {seconds:g} s. Only the ratios count.",
        "## Choosing",
        report.table(head, rows),
        "## Settling impressions of one campaign",
        report.table(["how", "settled/s", "times one by one"], settling),
    ]
    report.write_page("ads", "Ads", parts)
