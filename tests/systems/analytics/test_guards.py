"""Guards that matter for concurrent imports or after a crash, each tested separately."""

from __future__ import annotations

import io

import pytest
from tests.systems.analytics.conftest import line

from squinney.analytics import EventLog
from squinney.analytics.errors import ImportRunning
from squinney.analytics.events.imports import Options, import_stream
from squinney.analytics.events.partitions import EventPartitions
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.testing.commands import watched

LINES = [line(number) for number in range(40)]
SMALL = Options(name="log", chunk_bytes=400)


def stream(lines: list[str]) -> io.BytesIO:
    return io.BytesIO("".join(lines).encode())


def test_the_slower_of_two_imports_of_one_source_counts_nothing(analytics_db: Db) -> None:
    partitions = EventPartitions(analytics_db)
    overtaken: list[bool] = []

    def overtake(_: object) -> None:
        if not overtaken:
            overtaken.append(True)
            import_stream(partitions, stream(LINES), SMALL)

    with pytest.raises(ImportRunning):
        import_stream(partitions, stream(LINES), SMALL, after_checkpoint=overtake)
    source = analytics_db["imports"].find_one() or {}
    assert (source["lines"], source["stored"], source["state"]) == (40, 40, "done")
    assert analytics_db["events"].count_documents({}) == 40


def test_events_stored_by_a_crashed_import_are_not_sent_again(analytics_db: Db, mongod: Embedded) -> None:
    import_stream(EventPartitions(analytics_db), stream(LINES), SMALL)
    analytics_db["imports"].update_one({}, {"$set": {"offset": 0, "lines": 0, "stored": 0}})  # it died at once
    with watched(mongod.uri, analytics_db.name) as (db, commands):
        import_stream(EventPartitions(db), stream(LINES), SMALL)
    assert "insert" not in commands.names
    source = analytics_db["imports"].find_one() or {}
    assert (source["lines"], source["stored"]) == (40, 40)


def test_an_overtaken_import_does_not_set_the_state_to_done(analytics_db: Db) -> None:
    def go_on(_: object) -> None:
        analytics_db["imports"].update_one({}, {"$inc": {"offset": 1_000}})

    import_stream(EventPartitions(analytics_db), stream(LINES[:2]), SMALL, after_checkpoint=go_on)
    assert (analytics_db["imports"].find_one() or {})["state"] == "running"


def test_a_long_log_continues_from_its_checkpoint(analytics_db: Db) -> None:
    log = EventLog(analytics_db)
    assert log.import_file(stream(LINES)).counts.stored == 40
    assert log.import_file(stream([*LINES, line(99)])).counts.lines == 1
    assert analytics_db["events"].count_documents({}) == 41
