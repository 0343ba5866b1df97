"""Analytics' part of `squinney prove`: workers that are killed import logs, count hits and run roll-ups."""

from __future__ import annotations

import io
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

from squinney.analytics.events.documents import Import
from squinney.analytics.events.imports import import_stream
from squinney.analytics.events.lines import Options
from squinney.analytics.events.log import EventLog
from squinney.analytics.events.pages import events_of, pack
from squinney.analytics.hits.feed import feed_hits
from squinney.analytics.repair import find_problems
from squinney.analytics.rollups.rollups import Rollups
from squinney.errors import Conflict
from squinney.mongo.schema import Db

LINES = 400
SITE = "proof"
START = datetime(2026, 3, 1, tzinfo=UTC)


def prepare(db: Db) -> None:
    """Do nothing: each worker generates its own logs."""


def generated_log(name: str) -> bytes:
    """Return a log that is determined by its name, so that another worker can finish an interrupted import."""
    rng = random.Random(name)
    at = START
    lines = []
    for number in range(LINES):
        at += timedelta(seconds=rng.randint(0, 7_200))
        page = f"/{rng.randint(0, 20)}"
        lines.append(f'{name} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET {page} HTTP/1.1" 200 {number} "-" "proof"\n')
        if number % 50 == 0:
            lines.append("this line is not an event\n")
    return "".join(lines).encode()


def work(db: Db, seed: int) -> None:
    """Import one log after another, count its hits, and sometimes roll up and pack, until the process is killed."""
    rng = random.Random(seed)
    while True:
        _import(db, f"{seed}-{rng.getrandbits(32)}")
        if rng.random() < 0.2:
            _rollups(db).run()
        if rng.random() < 0.2:
            pack(db)


def _import(db: Db, name: str) -> None:
    def count(source: Import) -> None:
        feed_hits(db, source["_id"], batch=50)

    options = Options(name=name, title=name, site=SITE, chunk_bytes=4_096)
    try:
        import_stream(db, io.BytesIO(generated_log(name)), options, after_checkpoint=count)
    except Conflict:  # another worker imports the same log
        return


def _rollups(db: Db) -> Rollups:
    return Rollups(db, key="path", value="bytes", time="time")


def settle(db: Db) -> Counter[str]:
    """Do what an operator and the background job would: finish interrupted imports and run the roll-up."""
    done: Counter[str] = Counter()
    for source in list(db["analytics.imports"].find({"state": {"$ne": "done"}})):
        _import(db, source["name"])
        done["imports finished"] += 1
    for source in list(db["analytics.imports"].find({"$expr": {"$ne": ["$offset", {"$ifNull": ["$hits_offset", 0]}]}})):
        feed_hits(db, source["_id"])
        done["hits fed"] += 1
    _rollups(db).run()
    return done


def progress(db: Db) -> int:
    """Return the number of lines stored so far."""
    stored = db["analytics.imports"].aggregate([{"$group": {"_id": None, "stored": {"$sum": "$stored"}}}])
    return sum(row["stored"] for row in stored)


def check(db: Db) -> dict[str, str]:
    """Return each promise with what breaks it, or an empty string where it holds."""
    imports = list(db["analytics.imports"].find())
    events = Counter(
        (event["time"].replace(second=0), event["path"])
        for page in db["analytics.events"].find()
        for event in events_of(page)
    )
    wrong = [record["name"] for record in imports if (record["stored"], record["rejected"]) != (LINES, LINES // 50)]
    missing = len(imports) * LINES - events.total()
    problems = [str(problem) for problem in find_problems(db)]
    return {
        "every line of every log is stored or rejected": "" if not wrong else f"{len(wrong)} logs, such as {wrong[0]}",
        "no event is stored twice or lost": "" if not missing else f"{missing} missing",
        "hits equal the events of each minute": "" if _hits(db) == events else "they differ",
        "no roll-up differs from its events, and no other check fails": "; ".join(problems[:3]),
        "the run stored events": "" if EventLog(db).count() else "no event was stored",
    }


def _hits(db: Db) -> Counter[tuple[datetime, str]]:
    hits: Counter[tuple[datetime, str]] = Counter()
    for day in db["analytics.hits_daily"].find():
        for hour, minutes in day["minute"].items():
            for minute, count in minutes.items():
                at = day["metadata"]["date"] + timedelta(hours=int(hour), minutes=int(minute))
                hits[at, day["metadata"]["page"]] += count
    return hits
