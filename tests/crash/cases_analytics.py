"""The crash cases of analytics."""

from __future__ import annotations

import io
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from squinney.analytics import BufferedHits, EventLog, Hits, Retention, Rollups, Sessions, feed_hits, forget, verify
from squinney.analytics.demo import demo, lines
from squinney.analytics.errors import UnknownSource
from squinney.analytics.events import retention
from squinney.analytics.events.imports import Options, import_stream
from squinney.analytics.events.partitions import EventPartitions
from squinney.analytics.hits import increments
from squinney.mongo.schema import Db
from squinney.testing import Case
from squinney.testing.crash.cases import transactions
from squinney.transactions import Mode

START = datetime(2026, 3, 30, 22, tzinfo=UTC)
NATIVE: list[Mode] = ["native"]
LINES = 12
increments.PAGES_AT_ONCE = 2  # three pages are two transactions
retention.SETTLE_SECONDS = 0  # no reader needs to learn here that events move


def _line(number: int) -> str:
    at = START + timedelta(minutes=40 * number)
    return (
        f'203.0.113.{number % 3} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET /{number % 2} HTTP/1.1" 200 {number} "-" "x"\n'
    )


LOG = "".join(_line(number) for number in range(LINES)).encode() + b"garbage\n"


def _nothing(db: Db) -> Any:
    for name in db.list_collection_names(filter={"name": {"$regex": r"^events\."}}):
        db.drop_collection(name)
    return None


def _import(db: Db, mode: Mode, state: Any) -> None:
    """Import in chunks of a few lines, so that there are several checkpoints."""
    import_stream(EventPartitions(db), io.BytesIO(LOG), Options(name="log", site="s", chunk_bytes=400))


def _imported_once(db: Db, state: Any) -> None:
    _import(db, "native", state)
    assert sorted(event["bytes"] for event in EventLog(db).between(START, START + timedelta(days=3))) == [*range(LINES)]
    assert db["rejects"].count_documents({}) == 1
    (source,) = db["imports"].find()
    assert (source["lines"], source["stored"], source["rejected"]) == (LINES + 1, LINES, 1)
    assert (source["offset"], source["state"]) == (len(LOG), "done")


def _with_log(db: Db) -> Any:
    _nothing(db)
    _import(db, "native", None)
    return db["imports"].find_one()["_id"]


def _feed(db: Db, mode: Mode, state: Any) -> None:
    feed_hits(db, state, batch=5)


def _fed_once(db: Db, state: Any) -> None:
    feed_hits(db, state)
    counted: Counter[str] = Counter()
    for day in db["hits.daily"].find():
        counted[day["metadata"]["page"]] += day["total"]
    assert counted == {"/0": LINES // 2, "/1": LINES // 2}


def _record_hit(db: Db, mode: Mode, state: Any) -> None:
    Hits(db).record("s", "/p", START, 3)


def _record_hits(db: Db, mode: Mode, state: Any) -> None:
    Hits(db).record_many([("s", "/p", START, 1), ("s", "/q", START, 2)])


def _record_hits_by_key(db: Db, mode: Mode, state: Any) -> None:
    Hits(db).record_many([("s", f"/{page}", START, page) for page in range(1, 4)], key="k")


def _counted_once(db: Db, state: Any) -> None:
    _record_hits_by_key(db, "native", state)
    assert {day["metadata"]["page"]: day["total"] for day in db["hits.daily"].find()} == {"/1": 1, "/2": 2, "/3": 3}


def _flush_hits(db: Db, mode: Mode, state: Any) -> None:
    with BufferedHits(db, flush_after_seconds=3_600) as hits:
        hits.record("s", "/p", START, 3)


def _preallocate(db: Db, mode: Mode, state: Any) -> None:
    Hits(db).preallocate("s", "/p", START)


def _counted_whole_or_not(db: Db, state: Any) -> None:
    """The day equals the month, as `find_problems` also checks, and all hits are counted or none."""
    totals = {name: sum(one["total"] for one in db[name].find()) for name in ("hits.daily", "hits.monthly")}
    assert totals["hits.daily"] == totals["hits.monthly"]
    assert totals["hits.daily"] in (0, 3)


def _rollups(db: Db) -> Rollups:
    return Rollups(db, key="path", value="bytes", time="time")


def _roll_up(db: Db, mode: Mode, state: Any) -> None:
    _rollups(db).run()


def _rebuild(db: Db, mode: Mode, state: Any) -> None:
    _rollups(db).rebuild(START, START + timedelta(days=3))


def _regroup(db: Db, mode: Mode, state: Any) -> None:
    _rollups(db).regroup(START, START + timedelta(days=3))


def _rolled_up(db: Db, state: Any) -> None:
    _rollups(db).run()
    assert list(verify(db)) == []
    assert sum(year["value"]["total"] for year in db["rollups.yearly"].find()) == sum(range(LINES))


def _rolled_up_before(db: Db) -> Any:
    state = _with_log(db)
    _rollups(db).run()
    return state


def _switch(db: Db, mode: Mode, state: Any) -> None:
    Retention(db).switch("rotate")


def _switch_back(db: Db, mode: Mode, state: Any) -> None:
    Retention(db).switch("keep")


def _rotated(db: Db) -> Any:
    state = _with_log(db)
    Retention(db).switch("rotate")
    return state


def _nothing_lost(db: Db, state: Any) -> None:
    _imported_once(db, state)


def _to_drop(db: Db) -> Any:
    """Prepare rotated days that were closed long ago."""
    state = _rotated(db)
    long_ago = datetime(2026, 4, 1, tzinfo=UTC)
    closed = {"keep_seconds": 60, "closed_before": long_ago, "closed_at": long_ago}
    db["retention"].update_one({"_id": "events"}, {"$set": closed})
    return state


def _retain(db: Db, mode: Mode, state: Any) -> None:
    Retention(db).apply()


def _dropped(db: Db, state: Any) -> None:
    assert list(EventLog(db).between(START, START + timedelta(days=3))) == []


def _derive(db: Db, mode: Mode, state: Any) -> None:
    Sessions(db).derive()
    Sessions(db).rollups().run()


def _derived(db: Db, state: Any) -> None:
    _derive(db, "native", state)
    sessions = list(db["visit_sessions"].find({"length": {"$exists": True}}))
    assert sum(session["requests"] for session in sessions) == LINES
    assert list(verify(db)) == []


def _record_rotated(db: Db, mode: Mode, state: Any) -> None:
    EventLog(db).record_many([{"time": START + timedelta(days=day), "path": "/", "bytes": day} for day in range(3)])


def _record_by_key(db: Db, mode: Mode, state: Any) -> None:
    events = [{"time": START + timedelta(days=day), "path": "/", "bytes": day} for day in range(3)]
    EventLog(db, transactions=transactions(db, mode)).record_many(events, key="k")


def _recorded_once(db: Db, state: Any) -> None:
    _record_by_key(db, "native", state)
    assert [event["bytes"] for event in EventLog(db).between(START, START + timedelta(days=3))] == [0, 1, 2]


def _record_one_by_key(db: Db, mode: Mode, state: Any) -> None:
    event = {"time": START, "path": "/", "bytes": 1}
    EventLog(db, transactions=transactions(db, mode)).record(event, key="k")


def _one_recorded_once(db: Db, state: Any) -> None:
    _record_one_by_key(db, "native", state)
    assert [event["bytes"] for event in EventLog(db).between(START, START + timedelta(days=3))] == [1]


def _ready_to_rotate(db: Db) -> Any:
    _nothing(db)
    Retention(db).switch("rotate")


def _some_recorded(db: Db, state: Any) -> None:
    found = [event["bytes"] for event in EventLog(db).between(START, START + timedelta(days=3))]
    assert len(set(found)) == len(found) <= 3


def _demo(db: Db, mode: Mode, state: Any) -> None:
    demo(db, clock=lambda: START)


def _demo_goes_on(db: Db, state: Any) -> None:
    _demo(db, "native", state)
    events = EventLog(db).between(START - timedelta(days=4), START + timedelta(days=1))
    assert sum(1 for _ in events) == sum(1 for _ in lines(START))


def _fed_and_rolled_up(db: Db) -> Any:
    state = _with_log(db)
    _feed(db, "native", state)
    _roll_up(db, "native", state)
    return state


def _forget(db: Db, mode: Mode, state: Any) -> None:
    _forget_all(db)


def _forget_all(db: Db) -> None:
    for source in list(db["imports"].find()):
        with suppress(UnknownSource):  # another has forgotten it meanwhile
            forget(db, source["_id"])


def _nothing_is_known(db: Db, state: Any) -> None:
    names = ("imports", "events", "rejects")
    assert [db[name].count_documents({}) for name in names] == [0, 0, 0]


CASES = [
    # To follow a log is to import it again and again.
    Case(
        "EventLog.import_file", "analytics", _nothing, _import, _imported_once, NATIVE, covers=["EventLog.follow"]
    ),
    Case("EventLog.record_many", "analytics", _ready_to_rotate, _record_rotated, _some_recorded, NATIVE),
    Case("EventLog.record by key", "analytics", _nothing, _record_one_by_key, _one_recorded_once),
    Case("EventLog.record_many by key", "analytics", _ready_to_rotate, _record_by_key, _recorded_once),
    Case("analytics.feed_hits", "analytics", _with_log, _feed, _fed_once, NATIVE),
    Case("Hits.record", "analytics", _nothing, _record_hit, _counted_whole_or_not, NATIVE),
    Case("Hits.record_many", "analytics", _nothing, _record_hits, _counted_whole_or_not, NATIVE),
    Case("Hits.record_many by key", "analytics", _nothing, _record_hits_by_key, _counted_once, NATIVE),
    # Closing is one flush, and so is the end of a process.
    Case(
        "BufferedHits.flush", "analytics", _nothing, _flush_hits, _counted_whole_or_not, NATIVE,
        covers=["BufferedHits.close", "BufferedHits.flush_on_sigterm"],
    ),
    Case("Hits.preallocate", "analytics", _nothing, _preallocate, _counted_whole_or_not, NATIVE),
    Case("Rollups.run", "analytics", _with_log, _roll_up, _rolled_up, NATIVE, covers=["job:roll-up-events"]),
    Case("Rollups.rebuild", "analytics", _rolled_up_before, _rebuild, _rolled_up, NATIVE),
    Case("Rollups.regroup", "analytics", _rolled_up_before, _regroup, _rolled_up, NATIVE),
    Case("Retention.switch", "analytics", _with_log, _switch, _nothing_lost, NATIVE),
    Case("Retention.switch back", "analytics", _rotated, _switch_back, _nothing_lost, NATIVE),
    Case(
        "Retention.apply", "analytics", _to_drop, _retain, _dropped, NATIVE,
        covers=["job:retain-events", "Retention.drop"],
    ),
    Case("analytics.forget", "analytics", _fed_and_rolled_up, _forget, _nothing_is_known, NATIVE, age=_forget_all),
    Case("analytics.demo", "analytics", _nothing, _demo, _demo_goes_on, NATIVE),
    Case("Sessions.derive", "analytics", _with_log, _derive, _derived, NATIVE),
]  # fmt: skip
