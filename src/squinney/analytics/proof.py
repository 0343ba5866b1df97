"""Analytics' part of `squinney prove`: logs imported, counted and rolled up by workers that are killed."""

from __future__ import annotations

import io
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

from squinney.analytics.events.documents import Import
from squinney.analytics.events.imports import import_stream
from squinney.analytics.events.log import EventLog
from squinney.analytics.events.partitions import EventPartitions
from squinney.analytics.events.storing import Options
from squinney.analytics.hits.feed import feed_hits
from squinney.analytics.repair import find_problems
from squinney.analytics.rollups.rollups import Rollups
from squinney.errors import Conflict
from squinney.mongo.schema import Db
from squinney.transactions import Mode

LINES = 400
SITE = "proof"
START = datetime(2026, 3, 1, tzinfo=UTC)


def prepare(db: Db) -> None:
    """Nothing: every log is made from its number."""


def log_of(name: str) -> bytes:
    """A log that follows from its name, so that whoever finds it half imported can go on."""
    chance = random.Random(name)
    at = START
    lines = []
    for number in range(LINES):
        at += timedelta(seconds=chance.randint(0, 7_200))
        page = f"/{chance.randint(0, 20)}"
        lines.append(f'{name} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET {page} HTTP/1.1" 200 {number} "-" "proof"\n')
        if number % 50 == 0:
            lines.append("a line that is no event\n")
    return "".join(lines).encode()


def work(db: Db, mode: Mode, seed: int) -> None:
    """Import one log after the other, count its hits, and roll up, for ever."""
    chance = random.Random(seed)
    while True:
        _import(db, f"{seed}-{chance.getrandbits(32)}")
        if chance.random() < 0.2:
            _rollups(db).run()


def _import(db: Db, name: str) -> None:
    def count(source: Import) -> None:
        feed_hits(db, source["_id"], batch=50)

    options = Options(name=name, title=name, site=SITE, chunk_bytes=4_096)
    try:
        import_stream(EventPartitions(db), io.BytesIO(log_of(name)), options, after_checkpoint=count)
    except Conflict:  # another worker settles the same log
        return


def _rollups(db: Db) -> Rollups:
    return Rollups(db, key="path", value="bytes", time="time")


def settle(db: Db) -> Counter[str]:
    """What an operator and the background job do: import again what was cut off, and roll up."""
    done: Counter[str] = Counter()
    for source in list(db["imports"].find({"state": {"$ne": "done"}})):
        _import(db, source["name"])
        done["imports finished"] += 1
    for source in list(db["imports"].find({"$expr": {"$ne": ["$offset", {"$ifNull": ["$hits_offset", 0]}]}})):
        feed_hits(db, source["_id"])
        done["hits fed"] += 1
    _rollups(db).run()
    return done


def progress(db: Db) -> int:
    """How many lines were stored so far."""
    stored = db["imports"].aggregate([{"$group": {"_id": None, "stored": {"$sum": "$stored"}}}])
    return sum(row["stored"] for row in stored)


def check(db: Db) -> dict[str, str]:
    """Each promise with what breaks it; an empty string where it holds."""
    imports = list(db["imports"].find())
    events = Counter((event["time"].replace(second=0), event["path"]) for event in db["events"].find())
    wrong = [one["name"] for one in imports if (one["stored"], one["rejected"]) != (LINES, LINES // 50)]
    missing = len(imports) * LINES - events.total()
    problems = [str(problem) for problem in find_problems(db)]
    return {
        "every line of every log is stored or named": "" if not wrong else f"{len(wrong)} logs, such as {wrong[0]}",
        "no event is stored twice or lost": "" if not missing else f"{missing} missing",
        "hits are exactly the events, minute by minute": "" if _hits(db) == events else "they differ",
        "no roll-up differs from its events, and nothing else is wrong": "; ".join(problems[:3]),
        "there was something to prove": "" if EventLog(db).count() else "no event was stored",
    }


def _hits(db: Db) -> Counter[tuple[datetime, str]]:
    found: Counter[tuple[datetime, str]] = Counter()
    for day in db["hits.daily"].find():
        for hour, minutes in day["minute"].items():
            for minute, count in minutes.items():
                at = day["metadata"]["date"] + timedelta(hours=int(hour), minutes=int(minute))
                found[at, day["metadata"]["page"]] += count
    return found
