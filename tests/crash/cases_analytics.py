"""The crash cases of analytics."""

from __future__ import annotations

import io
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

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
    pack,
    verify,
)
from squinney.analytics.demo import demo, lines
from squinney.analytics.errors import UnknownSource
from squinney.analytics.events.documents import FLAT_INDEXES
from squinney.analytics.events.imports import import_stream
from squinney.analytics.events.lines import Options
from squinney.analytics.events.pages import events_of
from squinney.analytics.hits import increments
from squinney.analytics.migration import migrations
from squinney.mongo.schema import Db
from squinney.testing import Case

START = datetime(2026, 3, 30, 22, tzinfo=UTC)
LINES = 12
increments.PAGES_AT_ONCE = 2  # three pages are two transactions


def _line(number: int) -> str:
    at = START + timedelta(minutes=40 * number)
    return (
        f'203.0.113.{number % 3} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET /{number % 2} HTTP/1.1" 200 {number} "-" "x"\n'
    )


LOG = "".join(_line(number) for number in range(LINES)).encode() + b"garbage\n"


def _nothing(db: Db) -> Any:
    return None


def _import(db: Db, state: Any) -> None:
    """Import in chunks of a few lines, so that there are several checkpoints."""
    import_stream(db, io.BytesIO(LOG), Options(name="log", site="s", chunk_bytes=400))


def _imported_once(db: Db, state: Any) -> None:
    _import(db, state)
    assert sorted(event["bytes"] for event in EventLog(db).between(START, START + timedelta(days=3))) == [*range(LINES)]
    assert db["analytics.rejects"].count_documents({}) == 1
    (source,) = db["analytics.imports"].find()
    assert (source["lines"], source["stored"], source["rejected"]) == (LINES + 1, LINES, 1)
    assert (source["offset"], source["state"]) == (len(LOG), "done")


OWN_NAMES = "".join(f'{{"when": {START.timestamp() + n}, "page": "/{n}"}}\n' for n in range(LINES)).encode()


def _all_rejected(db: Db) -> Any:
    _nothing(db)
    import_stream(db, io.BytesIO(OWN_NAMES), Options(name="own", chunk_bytes=200))
    assert db["analytics.rejects"].count_documents({}) == LINES


def _import_mapped(db: Db, state: Any) -> None:
    options = Options(name="own", field_map={"time": "when", "path": "page"}, chunk_bytes=200)
    import_stream(db, io.BytesIO(OWN_NAMES), options)


def _mapped_once(db: Db, state: Any) -> None:
    _import_mapped(db, state)
    found = [event["path"] for event in EventLog(db).between(START, START + timedelta(days=3))]
    assert found == [f"/{n}" for n in range(LINES)]
    assert db["analytics.rejects"].count_documents({}) == 0
    (source,) = db["analytics.imports"].find()
    assert (source["lines"], source["stored"], source["rejected"]) == (LINES, LINES, 0)
    assert (source["offset"], source["state"]) == (len(OWN_NAMES), "done")


def _with_log(db: Db) -> Any:
    _nothing(db)
    _import(db, None)
    return db["analytics.imports"].find_one()["_id"]


def _feed(db: Db, state: Any) -> None:
    feed_hits(db, state, batch=5)


def _fed_once(db: Db, state: Any) -> None:
    feed_hits(db, state)
    counted: Counter[str] = Counter()
    for day in db["analytics.hits_daily"].find():
        counted[day["metadata"]["page"]] += day["total"]
    assert counted == {"/0": LINES // 2, "/1": LINES // 2}


def _record_hit(db: Db, state: Any) -> None:
    Hits(db).record("s", "/p", START, 3)


def _record_hits(db: Db, state: Any) -> None:
    Hits(db).record_many([("s", "/p", START, 1), ("s", "/q", START, 2)])


def _record_hits_by_key(db: Db, state: Any) -> None:
    Hits(db).record_many([("s", f"/{page}", START, page) for page in range(1, 4)], key="k")


def _counted_once(db: Db, state: Any) -> None:
    _record_hits_by_key(db, state)
    assert {day["metadata"]["page"]: day["total"] for day in db["analytics.hits_daily"].find()} == {
        "/1": 1,
        "/2": 2,
        "/3": 3,
    }


def _flush_hits(db: Db, state: Any) -> None:
    with BufferedHits(db, flush_after_seconds=3_600) as hits:
        hits.record("s", "/p", START, 3)


def _preallocate(db: Db, state: Any) -> None:
    Hits(db).preallocate("s", "/p", START)


def _counted_whole_or_not(db: Db, state: Any) -> None:
    """The day equals the month, as `find_problems` also checks, and all hits are counted or none."""
    totals = {
        name: sum(one["total"] for one in db[name].find())
        for name in ("analytics.hits_daily", "analytics.hits_monthly")
    }
    assert totals["analytics.hits_daily"] == totals["analytics.hits_monthly"]
    assert totals["analytics.hits_daily"] in (0, 3)


def _rollups(db: Db) -> Rollups:
    return Rollups(db, key="path", value="bytes", time="time")


def _roll_up(db: Db, state: Any) -> None:
    _rollups(db).run()


def _rebuild(db: Db, state: Any) -> None:
    _rollups(db).rebuild(START, START + timedelta(days=3))


def _regroup(db: Db, state: Any) -> None:
    _rollups(db).regroup(START, START + timedelta(days=3))


def _rolled_up(db: Db, state: Any) -> None:
    _rollups(db).run()
    assert list(verify(db)) == []
    assert sum(year["value"]["total"] for year in db["analytics.rollups_yearly"].find()) == sum(range(LINES))


def _rolled_up_before(db: Db) -> Any:
    state = _with_log(db)
    _rollups(db).run()
    return state


def _switch(db: Db, state: Any) -> None:
    Retention(db).switch("rotate")


def _pack(db: Db, state: Any) -> None:
    pack(db)


def _packed(db: Db, state: Any) -> None:
    pack(db)
    _imported_once(db, state)
    _feed(db, state)
    _fed_once(db, state)


def _flat(db: Db) -> Any:
    """Prepare events as an older version stored them."""
    state = _with_log(db)
    times = [(page["source"], event) for page in db["analytics.events"].find() for event in events_of(page)]
    db["analytics.events"].delete_many({})
    db["analytics.events"].create_indexes([index.model() for index in FLAT_INDEXES])
    flat = [{"_id": f"{source}-{event['bytes'] + 1:012x}", **event} for source, event in times]
    db["analytics.events"].insert_many(flat)
    return state


def _migrate(db: Db, state: Any) -> None:
    for migration in migrations(db):
        migration.run()


def _migrate_again(db: Db) -> None:
    """Do what the next start of the server does: until then, events that are not in pages count as damaged."""
    _migrate(db, None)


def _migrated(db: Db, state: Any) -> None:
    _imported_once(db, state)
    assert migrations(db) == []


def _rotated(db: Db) -> Any:
    state = _with_log(db)
    Retention(db).switch("rotate")
    return state


def _nothing_lost(db: Db, state: Any) -> None:
    _imported_once(db, state)


def _to_drop(db: Db) -> Any:
    """Prepare days that were closed long ago."""
    state = _rotated(db)
    long_ago = datetime(2026, 4, 1, tzinfo=UTC)
    closed = {"keep_seconds": 60, "closed_before": long_ago, "closed_at": long_ago}
    db["analytics.retention"].update_one({"_id": "events"}, {"$set": closed})
    return state


def _retain(db: Db, state: Any) -> None:
    Retention(db).apply()


def _dropped(db: Db, state: Any) -> None:
    assert list(EventLog(db).between(START, START + timedelta(days=3))) == []


def _derive(db: Db, state: Any) -> None:
    Sessions(db).derive()
    Sessions(db).rollups().run()


def _derived(db: Db, state: Any) -> None:
    _derive(db, state)
    sessions = list(db["analytics.visit_sessions"].find({"length": {"$exists": True}}))
    assert sum(session["requests"] for session in sessions) == LINES
    assert list(verify(db)) == []


def _record_rotated(db: Db, state: Any) -> None:
    EventLog(db).record_many([{"time": START + timedelta(days=day), "path": "/", "bytes": day} for day in range(3)])


def _record_by_key(db: Db, state: Any) -> None:
    events = [{"time": START + timedelta(days=day), "path": "/", "bytes": day} for day in range(3)]
    EventLog(db).record_many(events, key="k")


def _recorded_once(db: Db, state: Any) -> None:
    _record_by_key(db, state)
    assert [event["bytes"] for event in EventLog(db).between(START, START + timedelta(days=3))] == [0, 1, 2]


def _record_one_by_key(db: Db, state: Any) -> None:
    event = {"time": START, "path": "/", "bytes": 1}
    EventLog(db).record(event, key="k")


def _one_recorded_once(db: Db, state: Any) -> None:
    _record_one_by_key(db, state)
    assert [event["bytes"] for event in EventLog(db).between(START, START + timedelta(days=3))] == [1]


def _ready_to_rotate(db: Db) -> Any:
    _nothing(db)
    Retention(db).switch("rotate")


def _some_recorded(db: Db, state: Any) -> None:
    found = [event["bytes"] for event in EventLog(db).between(START, START + timedelta(days=3))]
    assert len(set(found)) == len(found) <= 3


def _demo(db: Db, state: Any) -> None:
    demo(db, clock=lambda: START)


def _demo_goes_on(db: Db, state: Any) -> None:
    _demo(db, state)
    events = EventLog(db).between(START - timedelta(days=4), START + timedelta(days=1))
    assert sum(1 for _ in events) == sum(1 for _ in lines(START))


def _fed_and_rolled_up(db: Db) -> Any:
    state = _with_log(db)
    _feed(db, state)
    _roll_up(db, state)
    return state


def _forget(db: Db, state: Any) -> None:
    _forget_all(db)


def _forget_all(db: Db) -> None:
    for source in list(db["analytics.imports"].find()):
        with suppress(UnknownSource):  # another has forgotten it meanwhile
            forget(db, source["_id"])


def _nothing_is_known(db: Db, state: Any) -> None:
    names = ("analytics.imports", "analytics.events", "analytics.rejects")
    assert [db[name].count_documents({}) for name in names] == [0, 0, 0]


def _report(db: Db, state: Any) -> None:
    ReportDays(db).update()


def _with_another_zone(db: Db) -> Any:
    _with_log(db)
    _report(db, None)
    ReportSites(db).change("s", time_zone="Asia/Kathmandu")


def _rebuild_reports(db: Db, state: Any) -> None:
    ReportDays(db).rebuild(START, START + timedelta(days=1))


def _reported_before(db: Db) -> Any:
    _with_log(db)
    _report(db, None)
    db["analytics.events"].delete_many({"events.bytes": {"$lt": 3}})  # so that there is something to compute


def _all_reported(db: Db, state: Any) -> None:
    _rebuild_reports(db, state)
    _report(db, state)
    days = Days(START.date() - timedelta(days=1), START.date() + timedelta(days=2))
    report = Reports(db).read("s", days, Filters.of(robots="in"))
    filtered = Reports(db).read("s", days, Filters.of({"system": "other"}, robots="in"))
    events = list(EventLog(db).between(START, START + timedelta(days=3)))
    assert report.totals == filtered.totals
    assert (report.totals["requests"], report.totals["bytes"]) == (len(events), sum(one["bytes"] for one in events))
    zones = {day["_id"]["zone"] for name in ("days", "requests") for day in db[f"analytics.report_{name}"].find()}
    assert zones == {report.time_zone}


CASES = [
    # To follow a log is to import it again and again.
    Case(
        "EventLog.import_file", "analytics", _nothing, _import, _imported_once, covers=["EventLog.follow"]
    ),
    Case("EventLog.record_many", "analytics", _ready_to_rotate, _record_rotated, _some_recorded),
    Case("EventLog.import_file in another format", "analytics", _all_rejected, _import_mapped, _mapped_once),
    Case("EventLog.record by key", "analytics", _nothing, _record_one_by_key, _one_recorded_once),
    Case("EventLog.record_many by key", "analytics", _ready_to_rotate, _record_by_key, _recorded_once),
    Case("analytics.feed_hits", "analytics", _with_log, _feed, _fed_once),
    Case("Hits.record", "analytics", _nothing, _record_hit, _counted_whole_or_not),
    Case("Hits.record_many", "analytics", _nothing, _record_hits, _counted_whole_or_not),
    Case("Hits.record_many by key", "analytics", _nothing, _record_hits_by_key, _counted_once),
    # Closing is one flush, and so is the end of a process.
    Case(
        "BufferedHits.flush", "analytics", _nothing, _flush_hits, _counted_whole_or_not,
        covers=["BufferedHits.close", "BufferedHits.flush_on_sigterm"],
    ),
    Case("Hits.preallocate", "analytics", _nothing, _preallocate, _counted_whole_or_not),
    Case("Rollups.run", "analytics", _with_log, _roll_up, _rolled_up, covers=["job:roll-up-events"]),
    Case("Rollups.rebuild", "analytics", _rolled_up_before, _rebuild, _rolled_up),
    Case("Rollups.regroup", "analytics", _rolled_up_before, _regroup, _rolled_up),
    Case("Retention.switch", "analytics", _with_log, _switch, _nothing_lost),
    Case("analytics.pack", "analytics", _with_log, _pack, _packed, covers=["job:pack-events"]),
    Case("EventsIntoPages.run", "analytics", _flat, _migrate, _migrated, age=_migrate_again),
    Case(
        "Retention.apply", "analytics", _to_drop, _retain, _dropped,
        covers=["job:retain-events", "Retention.freeze"],
    ),
    Case("analytics.forget", "analytics", _fed_and_rolled_up, _forget, _nothing_is_known, age=_forget_all),
    Case("analytics.demo", "analytics", _nothing, _demo, _demo_goes_on),
    Case("ReportDays.update", "analytics", _with_log, _report, _all_reported, covers=["job:compute-reports"]),
    Case("ReportDays.update in another zone", "analytics", _with_another_zone, _report, _all_reported),
    Case("ReportDays.rebuild", "analytics", _reported_before, _rebuild_reports, _all_reported),
    Case("Sessions.derive", "analytics", _with_log, _derive, _derived),
]  # fmt: skip
