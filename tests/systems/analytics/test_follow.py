"""Following a log that grows and is rotated while lines are written."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.systems.analytics.conftest import JUNE, MAY, line

from squinney.analytics import EventLog
from squinney.mongo.schema import Db


class Writer:
    """A web server's log: numbered lines, so that each can be looked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0

    def write(self, lines: int = 10) -> None:
        with self.path.open("a") as file:
            for _ in range(lines):
                file.write(
                    line(self.written, at=f"17/May/2015:10:{self.written // 60 % 60:02}:{self.written % 60:02} +0000")
                )
                self.written += 1


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    """A log that does not exist yet."""
    return Writer(tmp_path / "access.log")


@pytest.fixture
def following(analytics_db: Db, writer: Writer) -> Iterator[None]:
    """Someone follows the log."""
    stop = threading.Event()
    log = EventLog(analytics_db)
    thread = threading.Thread(target=log.follow, args=(writer.path,), kwargs={"stop": stop, "poll_seconds": 0.02})
    thread.start()
    yield
    stop.set()
    thread.join()


def wait_for(log: EventLog, numbers: range) -> None:
    """Until every line has arrived, once."""
    until = time.monotonic() + 20
    while (found := sorted(event["bytes"] for event in log.between(MAY, JUNE))) != list(numbers):
        assert time.monotonic() < until, found
        time.sleep(0.05)


@pytest.mark.usefixtures("following")
def test_a_growing_file(log: EventLog, writer: Writer) -> None:
    for _ in range(5):
        writer.write()
        wait_for(log, range(writer.written))


@pytest.mark.usefixtures("following")
def test_a_line_is_read_when_it_is_whole(log: EventLog, writer: Writer) -> None:
    writer.write(3)
    whole = line(3)
    with writer.path.open("a") as file:
        file.write(whole[:40])
        file.flush()
        wait_for(log, range(3))
        time.sleep(0.2)
        file.write(whole[40:])
    wait_for(log, range(4))
    assert log.imports().items[0]["rejected"] == 0


@pytest.mark.usefixtures("following")
def test_rotation_by_rename(log: EventLog, writer: Writer) -> None:
    """The server goes on writing to the renamed file for a moment."""
    writer.write(20)
    wait_for(log, range(20))
    rotated = writer.path.with_name("access.log.1")
    writer.path.rename(rotated)
    late = Writer(rotated)
    late.written = 20
    late.write(5)
    writer.written = 25
    writer.write(20)
    wait_for(log, range(45))
    assert len(log.imports().items) == 2


@pytest.mark.usefixtures("following")
def test_rotation_by_copy_and_truncate(log: EventLog, writer: Writer) -> None:
    """What was written right before the cut is in the copy only; GoAccess 1.7 counts such a copy twice."""
    for _ in range(3):
        writer.write(20)
        wait_for(log, range(writer.written))
        writer.write(5)
        shutil.copy(writer.path, writer.path.with_name("access.log.1"))
        writer.path.write_text("")
        writer.write(20)
        wait_for(log, range(writer.written))
    assert len(log.imports().items) == 4


def test_following_again_goes_on(log: EventLog, writer: Writer) -> None:
    writer.write(10)
    stop = threading.Event()
    stop.set()
    told: list[int] = []
    log.follow(writer.path, stop=stop, on_import=lambda imported: told.append(imported.counts.stored))
    writer.write(7)
    log.follow(writer.path, stop=stop, on_import=lambda imported: told.append(imported.counts.stored))
    assert told == [10, 7]
