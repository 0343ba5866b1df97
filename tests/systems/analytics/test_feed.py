"""Hits fed from the event log equal the events, even after kills at any point."""

from __future__ import annotations

import io
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.sizes import IN_FULL, heavy
from tests.systems.analytics.conftest import JUNE, MAY, line, stored_events
from tests.systems.analytics.test_imports import awk
from tests.systems.analytics.test_kills import run_until_killed

from squinney.analytics import EventLog, Hits, feed_hits
from squinney.analytics.errors import UnknownSource
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.testing.server_commands import watched

KILLS = 20 if IN_FULL else 2  # a killed transaction holds what it wrote for up to ten seconds
FEEDING = """
import sys
from squinney.analytics import EventLog, feed_hits
from squinney.mongo.connect import client_for
db = client_for(sys.argv[1])[sys.argv[2]]
print("ready", flush=True)
def feed(source):
    print("feeding", flush=True)
    feed_hits(db, source["_id"], batch=5)
EventLog(db).import_file(sys.argv[3], site="semicomplete", after_checkpoint=feed)
for source in db["analytics.imports"].find():
    feed(source)
"""
TERMINATED = """
import sys, time
from datetime import UTC, datetime
from squinney.analytics import BufferedHits
from squinney.mongo.connect import client_for
hits = BufferedHits(client_for(sys.argv[1])[sys.argv[2]], flush_after_seconds=3600)
hits.flush_on_sigterm()
for n in range(1000):
    hits.record("s", "/", datetime(2026, 1, 1, tzinfo=UTC))
print("ready", flush=True)
while True:  # a signal that comes just before a long sleep waits for its end
    time.sleep(0.1)
"""


def hits_by_minute_and_page(db: Db) -> Counter[tuple[datetime, str]]:
    """Return all hits of the day documents."""
    found: Counter[tuple[datetime, str]] = Counter()
    for day in db["analytics.hits_daily"].find():
        for hour, minutes in day["minute"].items():
            for minute, count in minutes.items():
                at = day["metadata"]["date"] + timedelta(hours=int(hour), minutes=int(minute))
                found[at, day["metadata"]["page"]] += count
    return found


def events_by_minute_and_page(db: Db) -> Counter[tuple[datetime, str]]:
    """Return the hits that the events should give."""
    return Counter((event["time"].replace(second=0), event["path"]) for event in stored_events(db))


def test_series_and_top_pages_agree_with_awk(log: EventLog, analytics_db: Db, real_log: Path) -> None:
    imported = log.import_file(real_log, site="semicomplete")
    assert feed_hits(analytics_db, imported.source["_id"]) == 9_999
    hits = Hits(analytics_db)
    good = r"""/"$/ { split($7, target, "?"); """

    pages = awk(good + "print target[1] }", real_log)
    top = hits.top_pages("semicomplete", MAY, JUNE, limit=1_000)
    assert all(pages[row["page"],] == row["hits"] for row in top)
    assert [row["hits"] for row in top] == sorted(pages.values(), reverse=True)[:1_000]

    page = top[0]["page"]
    of_page = good + f'if (target[1] == "{page}") print substr($4, 2, '
    minutes = awk(of_page + "17) }", real_log)
    series = hits.minutes("semicomplete", page, MAY, JUNE)
    assert {(f"{p.at:%d/%b/%Y:%H:%M}",): p.hits for p in series if p.hits} == dict(minutes)
    hours = awk(of_page + "14) }", real_log)
    series = hits.hours("semicomplete", page, MAY, JUNE)
    assert {(f"{p.at:%d/%b/%Y:%H}",): p.hits for p in series if p.hits} == dict(hours)


def test_feeding_again_adds_nothing(log: EventLog, analytics_db: Db) -> None:
    source = log.import_file(io.BytesIO(b"".join(line(n).encode() for n in range(10)))).source["_id"]
    assert feed_hits(analytics_db, source, batch=3) == 10
    assert feed_hits(analytics_db, source) == 0
    assert hits_by_minute_and_page(analytics_db) == events_by_minute_and_page(analytics_db)


def test_a_batch_reads_no_more_than_it_counts(log: EventLog, analytics_db: Db, mongod: Embedded) -> None:
    content = "".join(line(n, path=f"/{n % 3}") for n in range(1_000))
    source = log.import_file(io.BytesIO(content.encode()), site="s").source["_id"]
    with watched(mongod.uri, analytics_db.name) as (db, commands):
        assert feed_hits(db, source, batch=200) == 1_000
    assert commands.names.count("getMore") <= 5
    assert commands.names.count("commitTransaction") == 6  # the last one finds nothing


def test_events_not_fed_because_of_a_crash_are_fed_by_the_next_import(
    log: EventLog, analytics_db: Db, tmp_path: Path
) -> None:
    path = tmp_path / "access.log"
    path.write_text("".join(line(n) for n in range(20)))
    log.import_file(path, site="s")
    path.rename(tmp_path / "access.log.1")
    path.write_text("".join(line(n) for n in range(100, 105)))
    stop = threading.Event()
    stop.set()
    log.follow(path, stop=stop, site="s", after_checkpoint=lambda source: feed_hits(analytics_db, source["_id"]))
    assert Hits(analytics_db).site_total("s", MAY, JUNE) == 25


def test_recorded_events_are_never_fed(log: EventLog, analytics_db: Db) -> None:
    log.record({"time": MAY, "path": "/live"})
    source = log.import_file(io.BytesIO(line(path="/logged").encode())).source["_id"]
    feed_hits(analytics_db, source)
    assert [row["page"] for row in Hits(analytics_db).top_pages("", MAY, JUNE)] == ["/logged"]


def test_an_unknown_source_is_reported(analytics_db: Db) -> None:
    with pytest.raises(UnknownSource, match="nowhere"):
        feed_hits(analytics_db, "nowhere")


def test_two_feeders_and_a_live_recorder_count_each_hit_once(log: EventLog, analytics_db: Db) -> None:
    lines = [line(n, path=f"/{n % 7}") for n in range(600)]
    source = log.import_file(io.BytesIO("".join(lines).encode())).source["_id"]
    hits = Hits(analytics_db)
    at = datetime(2015, 5, 17, 10, 5, tzinfo=UTC)

    def record_live() -> None:
        for n in range(100):
            hits.record("", f"/{n % 7}", at)

    threads = [threading.Thread(target=feed_hits, args=(analytics_db, source), kwargs={"batch": 20}) for _ in range(2)]
    threads.append(threading.Thread(target=record_live))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hits.site_total("", MAY, JUNE) == 700


@heavy
def test_hits_equal_the_events_after_repeated_kills(
    log: EventLog, analytics_db: Db, real_log: Path, mongod: Embedded
) -> None:
    rng = random.Random(7)
    counted = []
    for _ in range(KILLS):
        run_until_killed(FEEDING, mongod.uri, analytics_db.name, str(real_log), rng=rng)
        counted.append(hits_by_minute_and_page(analytics_db).total())
    assert any(0 < total < 9_999 for total in counted)  # they died in the middle of it
    imported = log.import_file(real_log)
    feed_hits(analytics_db, imported.source["_id"])
    assert hits_by_minute_and_page(analytics_db) == events_by_minute_and_page(analytics_db)
    months = sum(month["total"] for month in analytics_db["analytics.hits_monthly"].find())
    assert months == 9_999


def test_sigterm_flushes_buffered_hits(analytics_db: Db, mongod: Embedded) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINATED, mongod.uri, analytics_db.name], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    assert process.wait(120) == -signal.SIGTERM
    process.stdout.close()
    assert analytics_db["analytics.hits_daily"].find_one()["total"] == 1000
