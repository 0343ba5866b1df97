"""Imports that are forgotten and repeated, and other corrections of a first import."""

from __future__ import annotations

import io
from datetime import timedelta
from random import Random

import pytest
from rich.console import Console
from rich.progress import Progress
from tests.systems.analytics.conftest import JUNE, MAY, line

from squinney.analytics import (
    EventLog,
    Hits,
    Rollups,
    advise_shard_key,
    feed_hits,
    find_problems,
    forget,
    verify,
)
from squinney.analytics.errors import ImportRunning, UnknownSource
from squinney.analytics.jobs import roll_up
from squinney.analytics.surface.cli_logs import columns
from squinney.errors import Invalid
from squinney.mongo.schema import Db


def test_an_import_with_the_wrong_site_is_forgotten_and_repeated(log: EventLog, analytics_db: Db) -> None:
    other = log.import_file(io.BytesIO(line(7, path="/other").encode()), site="right").source
    content = "".join(line(n) for n in range(5)) + "nonsense\n"
    wrong = log.import_file(io.BytesIO(content.encode()), site="wrong").source
    assert other
    assert wrong
    for source in (other, wrong):
        feed_hits(analytics_db, source["_id"], batch=2)
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    rollups.run()
    assert forget(analytics_db, wrong["_id"]) == {"hits": 5, "events": 5, "rejects": 1}
    assert (Hits(analytics_db).site_total("wrong", MAY, JUNE), Hits(analytics_db).site_total("right", MAY, JUNE)) == (
        0,
        1,
    )
    assert rollups.read("daily", "/", MAY, JUNE) == []
    assert list(verify(analytics_db)) == []
    assert list(find_problems(analytics_db)) == []
    with pytest.raises(UnknownSource):
        forget(analytics_db, wrong["_id"])
    assert log.import_file(io.BytesIO(content.encode()), site="right").counts.stored == 5
    assert {event["site"] for event in log.between(MAY, JUNE)} == {"right"}


def test_a_source_that_is_being_forgotten_is_not_imported(log: EventLog, analytics_db: Db) -> None:
    source = log.import_file(io.BytesIO(line().encode())).source
    assert source
    analytics_db["analytics.imports"].update_one(
        {"_id": source["_id"]}, {"$set": {"state": "forgetting", "forgetting": []}}
    )
    with pytest.raises(ImportRunning, match="forgotten"):
        log.import_file(io.BytesIO(line().encode()))
    forget(analytics_db, source["_id"])
    assert log.imports().items == []


# ---- what was said wrongly ----


def test_an_interrupted_import_is_marked(log: EventLog, analytics_db: Db) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log.import_file(io.BytesIO(line().encode()), after_checkpoint=interrupt)
    assert [one["state"] for one in log.imports().items] == ["interrupted"]
    analytics_db["analytics.imports"].update_one({}, [{"$set": {"state": "running"}}])
    assert [one["state"] for one in log.imports().items] == ["running"]
    long_ago = {"$subtract": ["$updated_at", timedelta(hours=1) // timedelta(milliseconds=1)]}
    analytics_db["analytics.imports"].update_one({}, [{"$set": {"updated_at": long_ago}}])
    assert [one["state"] for one in log.imports().items] == ["interrupted"]


def test_statuses_are_counted_per_site(log: EventLog) -> None:
    for site in ("a", "b", ""):
        log.import_file(io.BytesIO(line(path=f"/{site}").encode()), site=site)
    assert log.count_by_status(MAY, JUNE) == {200: 3}
    assert log.count_by_status(MAY, JUNE, site="a") == {200: 1}
    assert log.count_by_status(MAY, JUNE, site="") == {200: 1}


def test_documents_without_an_arrival_are_refused(analytics_db: Db) -> None:
    analytics_db["orders_made"].insert_one({"userid": "ann", "length": 1, "ts": MAY})
    with pytest.raises(Invalid, match="orders_made have no `arrived`"):
        Rollups(analytics_db, "orders_made").run()
    others = Rollups(analytics_db, key="path", value="bytes", time="time", name="page_bytes")
    others.run()
    EventLog(analytics_db).record({"time": MAY, "path": "/", "bytes": 1})
    done = roll_up(analytics_db)  # regression: the job ended at the refused roll-up
    assert (done["rollups refused"], len(others.read("daily", "/", MAY, JUNE))) == (1, 1)


def test_time_is_a_poor_key_even_if_a_log_is_in_no_order(log: EventLog, analytics_db: Db) -> None:
    lines = [line(n, at=f"{n // 24 + 1:02}/May/2015:{n % 24:02}:00:00 +0000") for n in range(300)]
    log.import_file(io.BytesIO("".join(Random(1).sample(lines, len(lines))).encode()))
    (advice,) = advise_shard_key(analytics_db, [{"from": 1}])
    assert (advice.verdict, advice.monotonic) == ("poor", True)


def test_the_progress_bar_is_one_line_of_80_characters() -> None:
    screen = Console(width=80, file=io.StringIO(), force_terminal=True)
    with Progress(*columns(), console=screen, expand=True) as bar:
        bar.add_task(
            "/var/log/a-rather-long-name-of-a-machine/a-rather-long-name-of-an-access.log.gz",
            lines=123_456_789,
            rejected=123_456,
            rate="123,456 /s",
        )
        (shown,) = [bar.get_renderable()]
        lines = screen.render_lines(shown, screen.options.update(height=None))
    assert len(lines) == 1
    text = "".join(segment.text for segment in lines[0])
    assert all(figure in text for figure in ("123,456,789 lines", "123,456 /s", "123,456 rejected")), (
        "only names are cut"
    )
