"""Guards that matter for concurrent imports or after a crash, each tested separately."""

from __future__ import annotations

import io

import pytest
from tests.systems.analytics.conftest import line, stored_events

from squinney.analytics import EventLog
from squinney.analytics.errors import ImportRunning
from squinney.analytics.events.imports import Options, import_stream
from squinney.mongo.schema import Db

LINES = [line(number) for number in range(40)]
SMALL = Options(name="log", chunk_bytes=400)


def stream(lines: list[str]) -> io.BytesIO:
    return io.BytesIO("".join(lines).encode())


def test_the_slower_of_two_imports_of_one_source_counts_nothing(analytics_db: Db) -> None:
    overtaken: list[bool] = []

    def overtake(_: object) -> None:
        if not overtaken:
            overtaken.append(True)
            import_stream(analytics_db, stream(LINES), SMALL)

    with pytest.raises(ImportRunning):
        import_stream(analytics_db, stream(LINES), SMALL, after_checkpoint=overtake)
    source = analytics_db["analytics.imports"].find_one() or {}
    assert (source["lines"], source["stored"], source["state"]) == (40, 40, "done")
    assert len(stored_events(analytics_db)) == 40


def test_an_overtaken_import_does_not_set_the_state_to_done(analytics_db: Db) -> None:
    def go_on(_: object) -> None:
        analytics_db["analytics.imports"].update_one({}, {"$inc": {"offset": 1_000}})

    import_stream(analytics_db, stream(LINES[:2]), SMALL, after_checkpoint=go_on)
    assert (analytics_db["analytics.imports"].find_one() or {})["state"] == "running"


def test_a_long_log_continues_from_its_checkpoint(analytics_db: Db) -> None:
    log = EventLog(analytics_db)
    assert log.import_file(stream(LINES)).counts.stored == 40
    assert log.import_file(stream([*LINES, line(99)])).counts.lines == 1
    assert len(stored_events(analytics_db)) == 41
