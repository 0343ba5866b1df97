"""Demo data: three days of a small site's log, up to the present hour."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from squinney.analytics.events.log import EventLog
from squinney.analytics.hits.feed import feed_hits
from squinney.analytics.rollups.rollups import Rollups, page_bytes
from squinney.clock import Clock, utcnow
from squinney.mongo.schema import Db

SITE = "demo"
DAYS = 3
PAGES = ["/", "/about", "/blog", "/blog/squirrels", "/blog/hibernation", "/shop", "/shop/acorns", "/contact", "/gone"]
WEIGHTS = [30, 6, 14, 10, 5, 12, 9, 3, 2]
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (iPhone)", "curl/8.5.0"]


def lines(until: datetime) -> Iterator[str]:
    """Yield the log's lines. Only their dates vary, and with the same length, so an interrupted import can continue."""
    rng = random.Random(13)
    at = until - timedelta(days=DAYS)
    while at < until:
        busy = 1.2 + math.sin((at.hour - 8) / 24 * 2 * math.pi)
        at += timedelta(seconds=rng.expovariate(busy / 90))
        page = rng.choices(PAGES, WEIGHTS)[0]
        status = 404 if page == "/gone" else 200
        host = f"198.51.100.{rng.randint(100, 199)}"
        size = rng.randint(10_000, 99_999)
        request = f'"GET {page} HTTP/1.1" {status} {size} "-" "{AGENTS[size % 3]}"'
        yield f"{host} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] {request}\n"


def demo(db: Db, *, clock: Clock = utcnow) -> None:
    """Import the log, count its hits and roll it up; a second call adds nothing.

    Atomic: as `EventLog.import_file`.
    After a crash: the next call continues.
    """
    hour = clock().replace(minute=0, second=0, microsecond=0)
    content = io.BytesIO("".join(lines(hour)).encode())
    imported = EventLog(db).import_file(content, source="demo", site=SITE)
    if imported.source:
        feed_hits(db, imported.source["_id"])
    Rollups(db, key="path", value="bytes", time="time").run()
    page_bytes(db).run()
