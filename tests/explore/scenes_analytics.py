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
from squinney.analytics import BufferedHits, EventLog, Hits, Retention, Rollups, Sessions, feed_hits, forget
from squinney.analytics.errors import ImportRunning, UnknownSource
from squinney.analytics.events import retention
from squinney.analytics.events.imports import Options, import_stream
from squinney.analytics.events.partitions import EventPartitions
from squinney.mongo.schema import Db
from squinney.transactions import Mode
from tests.explore.scene import Act, Scene, transactions

START = datetime(2026, 3, 30, 22, tzinfo=UTC)
END = START + timedelta(days=3)
NATIVE: list[Mode] = ["native"]
LINES = 8
retention.SETTLE_SECONDS = 0  # the explorer does not let time pass, so waiting would prove nothing


def _on(change: Callable[[Db, Any], object]) -> Act:
    return lambda db, mode, state: change(db, state)


def _job(name: str) -> Act:
    run = next(job.run for job in assembly.jobs() if job.name == name)
    return lambda db, mode, state: run(db)


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
    import_stream(EventPartitions(db), io.BytesIO(log), Options(name="log", site="s", chunk_bytes=300))


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


def _imported_and_counted_once(db: Db, source: Any) -> None:
    """Repeat everything: each line is stored and counted once, for the log by name and for the log by content."""
    _import_all(db)
    _follow(db, source)
    found = sorted(event["bytes"] for event in EventLog(db).between(START, END) if event["_id"].startswith(source))
    assert found == list(range(LINES))
    stored = db["imports"].find_one({"_id": source})
    assert stored
    assert (stored["lines"], stored["stored"], stored["rejected"], stored["offset"]) == (LINES + 1, LINES, 1, len(LOG))
    for one in list(db["imports"].find()):
        feed_hits(db, one["_id"])
    assert sum(day["total"] for day in db["hits.daily"].find()) == 2 * LINES


IMPORTS: dict[str, Act] = {
    "import": _on(lambda db, source: _import_all(db)),
    "import in chunks": _on(lambda db, source: _import_in_chunks(db, LOG)),
    "follow": _on(_follow),
    "feed": _on(lambda db, source: feed_hits(db, source, batch=2)),
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
    log.record(_event(3))


def _log(db: Db, mode: Mode) -> EventLog:
    return EventLog(db, transactions=transactions(db, mode))


def _rolled_up_in_the_end(db: Db, state: Any) -> None:
    """The next run counts every event, at all levels."""
    _rollups(db).run()
    expected = sum(event["bytes"] for event in EventLog(db).between(START, END))
    for level in ("hourly", "daily", "yearly"):
        assert sum(one["value"]["total"] for one in db[f"rollups.{level}"].find()) == expected
    assert list(analytics.verify(db)) == []


def _all_requests_are_in_sessions(db: Db, state: Any) -> None:
    Sessions(db).derive()
    sessions = db["visit_sessions"].find({"length": {"$exists": True}})
    assert sum(one["requests"] for one in sessions) == sum(1 for _ in EventLog(db).between(START, END))


RECORDS: dict[str, Act] = {
    "record": lambda db, mode, state: _log(db, mode).record(_event(0)),
    "record by key": lambda db, mode, state: _log(db, mode).record(_event(5), key="k"),
    "record many by key": lambda db, mode, state: _log(db, mode).record_many([_event(5), _event(1)], key="m"),
}
ROLLUPS: dict[str, Act] = {
    "record": RECORDS["record"],
    "rebuild": _on(lambda db, state: _rollups(db).rebuild(START, END)),
    "regroup": _on(lambda db, state: _rollups(db).regroup(START, END)),
    "roll up": _job("roll-up-events"),
}
VISITS: dict[str, Act] = {
    "record": RECORDS["record"],
    "record between": lambda db, mode, state: _log(db, mode).record(_event(0, time=START + timedelta(minutes=20))),
    "derive": _on(lambda db, state: Sessions(db).derive()),
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
    for source in list(db["imports"].find({"state": "forgetting"})):
        _forget(db, source["_id"])


def _all_or_nothing_is_known(db: Db, source: Any) -> None:
    """A forgotten log has left nothing; otherwise all its events are there, and are counted once."""
    known = db["imports"].count_documents({})
    if known:
        feed_hits(db, source)
    hits = sum(day["total"] for day in db["hits.daily"].find())
    events = sum(1 for _ in EventLog(db).between(START, END))
    assert (events, hits) == (LINES * known, LINES * known)
    assert list(analytics.verify(db)) == []


FORGETTING: dict[str, Act] = {
    "forget": _on(_forget),
    "feed": IMPORTS["feed"],
    "roll up": ROLLUPS["roll up"],
}

# ---- moving events between partitions ----


def _moving(db: Db) -> str:
    """Import a log, count the hits of half of it, and set a policy whose events are not moved yet.

    One event is in its new partition too, as after two imports with different policies.
    """
    source = _half_imported(db)
    feed_hits(db, source)
    _import_all(db)
    db["retention"].insert_one({"_id": "events", "strategy": "rotate", "unit": "day", "moving": True})
    partitions = EventPartitions(db)
    event = db["events"].find_one()
    assert event
    policy = partitions.policy()
    partitions.ensure_created(partitions.partition_for(event["time"], policy), policy).insert_one(event)
    return source


def _retention(db: Db) -> Retention:
    return Retention(db, grace_seconds=0, settle_seconds=0)


def _record_now(db: Db, state: Any) -> None:
    """Record an event with a policy that is read now."""
    EventLog(db, partitions=EventPartitions(db, refresh_seconds=0)).record({**_event(0), "host": "recorded"})


def _each_event_is_there_once(db: Db, source: Any) -> None:
    """After the next move, all events of the log are there once, or none if it was forgotten."""
    _retention(db).apply()
    names = [name for name in db.list_collection_names() if name == "events" or name.startswith("events.")]
    ids = [event["_id"] for name in names for event in db[name].find({}, {"_id": 1})]
    assert len(ids) == len(set(ids))
    known = db["imports"].count_documents({})
    assert sum(one.startswith(source) for one in ids) == LINES * known
    if known:
        feed_hits(db, source)
    assert sum(day["total"] for day in db["hits.daily"].find()) == LINES * known


MOVING: dict[str, Act] = {
    "move": _job("retain-events"),
    "move back": _on(lambda db, state: _retention(db).switch("keep")),
    "feed": IMPORTS["feed"],
    "forget": FORGETTING["forget"],
}
SWITCHING: dict[str, Act] = {
    "rotate": _on(lambda db, state: _retention(db).switch("rotate")),
    "keep": MOVING["move back"],
    "apply": _on(lambda db, state: _retention(db).apply()),
    "record": _on(_record_now),
}

SCENES = [
    # To preallocate is one upsert for each of two documents.
    Scene("hits", "analytics", _some_hits, HITS, modes=NATIVE, composed=["preallocate"]),
    Scene(
        "hits, repaired",
        "analytics",
        _some_hits,
        {name: HITS[name] for name in ("record", "record many")},
        modes=NATIVE,
        between=[analytics.repair],
    ),
    Scene(
        "imports",
        "analytics",
        _half_imported,
        IMPORTS,
        modes=NATIVE,
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
        modes=NATIVE,
        composed=["rebuild", "regroup", "roll up"],
        check=_rolled_up_in_the_end,
    ),
    Scene(
        "visits",
        "analytics",
        _rolled_up,
        VISITS,
        modes=NATIVE,
        composed=["derive"],
        check=_all_requests_are_in_sessions,
    ),
    Scene(
        "forgetting",
        "analytics",
        _fed_and_rolled_up,
        FORGETTING,
        modes=NATIVE,
        composed=list(FORGETTING),
        check=_all_or_nothing_is_known,
        age=_finish_forgetting,
    ),
    Scene(
        "moving",
        "analytics",
        _moving,
        MOVING,
        modes=NATIVE,
        composed=list(MOVING),
        check=_each_event_is_there_once,
        age=_finish_forgetting,
    ),
    Scene(
        "switching",
        "analytics",
        _moving,
        SWITCHING,
        modes=NATIVE,
        composed=list(SWITCHING),
        check=_each_event_is_there_once,
    ),
]
