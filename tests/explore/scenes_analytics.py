"""Concurrent operations of analytics: hits of one page, one log, one roll-up and its events, visits."""

from __future__ import annotations

import io
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from squinney import analytics, assembly
from squinney.analytics import (
    BufferedHits,
    Days,
    EventLog,
    Filters,
    Hits,
    ReportDays,
    Reports,
    ReportSites,
    Retention,
    Rollups,
    Sessions,
    feed_hits,
    forget,
)
from squinney.analytics.errors import ImportRunning, UnknownSource
from squinney.analytics.events.imports import import_stream
from squinney.analytics.events.lines import Options
from squinney.analytics.events.pages import events_of
from squinney.mongo.schema import Db
from tests.explore.scene import Act, Scene

START = datetime(2026, 3, 30, 22, tzinfo=UTC)
END = START + timedelta(days=3)
LINES = 8


def _on(change: Callable[[Db, Any], object]) -> Act:
    return lambda db, state: change(db, state)


def _job(name: str) -> Act:
    run = next(job.run for job in assembly.jobs() if job.name == name)
    return lambda db, state: run(db)


# ---- hits ----


def _some_hits(db: Db) -> None:
    Hits(db).record_many([("s", "/p", START, 2), ("s", "/p", START + timedelta(hours=3), 1)])


def _flush(db: Db, state: Any) -> None:
    hits = BufferedHits(db, flush_after_seconds=3_600)
    try:
        hits.record("s", "/p", START, 3)
        hits.flush()  # not by `close`, which would flush in another thread
    finally:
        hits.close()


HITS: dict[str, Act] = {
    "record": _on(lambda db, state: Hits(db).record("s", "/p", START, 5)),
    "record by key": _on(lambda db, state: Hits(db).record("s", "/q", START, 7, key="k")),
    "record many": _on(lambda db, state: Hits(db).record_many([("s", page, START, 11) for page in ("/p", "/q")])),
    "flush": _on(_flush),
    "preallocate": _on(lambda db, state: Hits(db).preallocate("s", "/q", START)),
}

# ---- one log ----


def _line(number: int) -> str:
    at = START + timedelta(minutes=40 * number)
    return (
        f'203.0.113.{number % 2} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET /{number % 2} HTTP/1.1" 200 {number} "-" "x"\n'
    )


LOG = "".join(_line(number) for number in range(LINES)).encode() + b"garbage\n"
HALF = len("".join(_line(number) for number in range(LINES // 2)))


def _import_in_chunks(db: Db, log: bytes) -> None:
    """Import in chunks of a few lines, so that there are several checkpoints."""
    import_stream(db, io.BytesIO(log), Options(name="log", site="s", chunk_bytes=300))


def _half_imported(db: Db) -> str:
    _import_in_chunks(db, LOG[:HALF])
    return str(EventLog(db).imports().items[0]["_id"])


def _import_all(db: Db) -> None:
    EventLog(db).import_file(io.BytesIO(LOG), source="log", site="s")


def _follow(db: Db, state: Any) -> None:
    """Read what is in a file now, and end."""
    stop = threading.Event()
    stop.set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(LOG)
        EventLog(db).follow(path, stop=stop, site="s")


def _numbers(db: Db, source: str) -> list[int]:
    pages = db["analytics.events"].find({"source": source})
    return sorted(event["bytes"] for page in pages for event in events_of(page))


def _imported_and_counted_once(db: Db, source: Any) -> None:
    """Repeat everything: each line is stored and counted once, for the log by name and for the log by content."""
    _import_all(db)
    _follow(db, source)
    assert _numbers(db, source) == list(range(LINES))
    stored = db["analytics.imports"].find_one({"_id": source})
    assert stored
    assert (stored["lines"], stored["stored"], stored["rejected"], stored["offset"]) == (LINES + 1, LINES, 1, len(LOG))
    for one in list(db["analytics.imports"].find()):
        feed_hits(db, one["_id"])
    assert sum(day["total"] for day in db["analytics.hits_daily"].find()) == 2 * LINES


IMPORTS: dict[str, Act] = {
    "import": _on(lambda db, source: _import_all(db)),
    "import in chunks": _on(lambda db, source: _import_in_chunks(db, LOG)),
    "follow": _on(_follow),
    "feed": _on(lambda db, source: feed_hits(db, source, batch=2)),
    "pack": _job("pack-events"),
}

# ---- events, their roll-up, and visits ----


def _event(number: int, **more: Any) -> dict[str, Any]:
    return {"time": START + timedelta(hours=number), "path": "/", "host": "h", "bytes": 10 + number, **more}


def _rollups(db: Db) -> Rollups:
    return Rollups(db, key="path", value="bytes", time="time")


def _rolled_up(db: Db) -> None:
    """Roll events of two days up, and then record another event."""
    log = EventLog(db)
    log.record_many([_event(number) for number in (0, 1, 5)])
    _rollups(db).run()
    Sessions(db).derive()
    log.record(_event(1, bytes=33))


def _rolled_up_in_the_end(db: Db, state: Any) -> None:
    """The next run counts every event, at all levels."""
    _rollups(db).run()
    expected = sum(event["bytes"] for event in EventLog(db).between(START, END))
    for level in ("hourly", "daily", "yearly"):
        assert sum(one["value"]["total"] for one in db[f"analytics.rollups_{level}"].find()) == expected
    assert list(analytics.verify(db)) == []


def _all_requests_are_in_sessions(db: Db, state: Any) -> None:
    Sessions(db).derive()
    sessions = db["analytics.visit_sessions"].find({"length": {"$exists": True}})
    assert sum(session["requests"] for session in sessions) == sum(1 for _ in EventLog(db).between(START, END))


RECORDS: dict[str, Act] = {
    "record": lambda db, state: EventLog(db).record(_event(0)),
    "record by key": lambda db, state: EventLog(db).record(_event(5), key="k"),
    "record many by key": lambda db, state: EventLog(db).record_many([_event(5), _event(1)], key="m"),
}
ROLLUPS: dict[str, Act] = {
    "record": RECORDS["record"],
    "rebuild": _on(lambda db, state: _rollups(db).rebuild(START, END)),
    "regroup": _on(lambda db, state: _rollups(db).regroup(START, END)),
    "roll up": _job("roll-up-events"),
    "pack": IMPORTS["pack"],
}
VISITS: dict[str, Act] = {
    "record": RECORDS["record"],
    "record between": lambda db, state: EventLog(db).record(_event(0, time=START + timedelta(minutes=20))),
    "derive": _on(lambda db, state: Sessions(db).derive()),
}

# ---- reports ----


def _reported(db: Db) -> None:
    """Compute the reports of two days, and then record another event of the first one."""
    EventLog(db).record_many([_event(number, site="s") for number in (0, 5)])
    ReportDays(db).update()
    EventLog(db).record(_event(1, site="s"))


def _reported_in_the_end(db: Db, state: Any) -> None:
    """The next run counts every event once, in the days of the site's time zone."""
    ReportDays(db).update()
    days = Days(START.date() - timedelta(days=1), END.date())
    report = Reports(db).read("s", days, Filters.of(robots="in"))
    expected = [event["bytes"] for event in EventLog(db).between(START, END)]
    assert (report.totals["requests"], report.totals["bytes"]) == (len(expected), sum(expected))
    assert Reports(db).read("s", days, Filters.of({"browser": "unknown"}, robots="in")).totals == report.totals


REPORTS: dict[str, Act] = {
    "record": lambda db, state: EventLog(db).record(_event(2, site="s")),
    "update": _job("compute-reports"),
    "rebuild": _on(lambda db, state: ReportDays(db).rebuild(START, END)),
    "change": lambda db, state: ReportSites(db).change("s", time_zone="Asia/Kathmandu"),
}

# ---- forgetting ----


def _fed_and_rolled_up(db: Db) -> str:
    """Import a log, count the hits of half of it, and roll it up."""
    source = _half_imported(db)
    feed_hits(db, source)
    _import_all(db)
    _rollups(db).run()
    return source


def _forget(db: Db, source: Any) -> None:
    with suppress(UnknownSource):  # another has forgotten it meanwhile
        forget(db, source)


def _finish_forgetting(db: Db) -> None:
    for source in list(db["analytics.imports"].find({"state": "forgetting"})):
        _forget(db, source["_id"])


def _all_or_nothing_is_known(db: Db, source: Any) -> None:
    """A forgotten log has left nothing; otherwise all its events are there, and are counted once."""
    known = db["analytics.imports"].count_documents({})
    if known:
        feed_hits(db, source)
    hits = sum(day["total"] for day in db["analytics.hits_daily"].find())
    events = sum(1 for _ in EventLog(db).between(START, END))
    assert (events, hits) == (LINES * known, LINES * known)
    assert list(analytics.verify(db)) == []


FORGETTING: dict[str, Act] = {
    "forget": _on(_forget),
    "feed": IMPORTS["feed"],
    "roll up": ROLLUPS["roll up"],
    "pack": IMPORTS["pack"],
}

# ---- retention ----


def _rotating(db: Db) -> str:
    """Import a log, and set a policy under which its first day is closed, and may be deleted at once."""
    _half_imported(db)
    _import_all(db)
    next_day = START.replace(hour=0) + timedelta(days=1)
    closed = {"closed_before": next_day, "closed_at": START}
    db["analytics.retention"].insert_one({"_id": "events", "strategy": "rotate", "unit": "day", **closed})
    return str(EventLog(db).imports().items[0]["_id"])


def _retention(db: Db) -> Retention:
    return Retention(db, grace_seconds=0)


def _record_next_day(db: Db, state: Any) -> None:
    """Record an event with a policy that is read now."""
    EventLog(db, refresh_seconds=0).record({**_event(4), "host": "recorded"})


def _only_whole_days_are_gone(db: Db, source: Any) -> None:
    """The events of a frozen day are gone after the next call, and all others are there once."""
    _retention(db).apply()
    frozen = _retention(db).policy().frozen_before or START
    times = [START + timedelta(minutes=40 * number) for number in range(LINES)]
    assert _numbers(db, source) == [number for number, at in enumerate(times) if at >= frozen]


RETENTION: dict[str, Act] = {
    "apply": _job("retain-events"),
    "keep": _on(lambda db, state: _retention(db).switch("keep")),
    "rotate": _on(lambda db, state: _retention(db).switch("rotate")),
    "freeze": _on(lambda db, state: _retention(db).freeze(START + timedelta(hours=2), closed_at=START)),
    "record": _on(_record_next_day),
    "pack": IMPORTS["pack"],
}

SCENES = [
    # To preallocate is one upsert for each of two documents.
    Scene("hits", "analytics", _some_hits, HITS, composed=["preallocate"]),
    Scene(
        "hits, repaired",
        "analytics",
        _some_hits,
        {name: HITS[name] for name in ("record", "record many")},
        between=[analytics.repair],
    ),
    Scene(
        "analytics.imports",
        "analytics",
        _half_imported,
        IMPORTS,
        composed=list(IMPORTS),  # each moves in batches, and continues from where another has stopped
        excused=(ImportRunning,),
        check=_imported_and_counted_once,
    ),
    Scene("events", "analytics", _rolled_up, RECORDS),
    Scene(
        "roll-ups",
        "analytics",
        _rolled_up,
        ROLLUPS,
        composed=["rebuild", "regroup", "roll up", "pack"],
        check=_rolled_up_in_the_end,
    ),
    Scene(
        "visits",
        "analytics",
        _rolled_up,
        VISITS,
        composed=["derive"],
        check=_all_requests_are_in_sessions,
    ),
    Scene(
        "reports",
        "analytics",
        _reported,
        REPORTS,
        composed=["update", "rebuild"],
        check=_reported_in_the_end,
    ),
    Scene(
        "forgetting",
        "analytics",
        _fed_and_rolled_up,
        FORGETTING,
        composed=list(FORGETTING),
        check=_all_or_nothing_is_known,
        age=_finish_forgetting,
    ),
    Scene(
        "retention",
        "analytics",
        _rotating,
        RETENTION,
        composed=["apply", "freeze", "pack"],
        check=_only_whole_days_are_gone,
    ),
]
