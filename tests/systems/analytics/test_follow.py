"""Following a log that grows and is rotated while lines are written."""

from __future__ import annotations

import gzip
import importlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.systems.analytics.conftest import JUNE, MAY, line

from squinney.analytics import COLLECTIONS, EventLog
from squinney.analytics.errors import ImportRunning
from squinney.errors import Invalid
from squinney.mongo.schema import Db, apply

Failing = Callable[..., AbstractContextManager[None]]


class Writer:
    """A web server that writes numbered lines, so that each line can be checked."""

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
    """Follow the log in a thread."""
    stop = threading.Event()
    log = EventLog(analytics_db)
    thread = threading.Thread(target=log.follow, args=(writer.path,), kwargs={"stop": stop, "poll_seconds": 0.02})
    thread.start()
    yield
    stop.set()
    thread.join()


def wait_for(log: EventLog, numbers: range) -> None:
    """Wait until every line is stored once."""
    until = time.monotonic() + 120
    while (found := sorted(event["bytes"] for event in log.between(MAY, JUNE))) != list(numbers):
        assert time.monotonic() < until, found
        time.sleep(0.05)


@pytest.mark.usefixtures("following")
def test_a_growing_file(log: EventLog, writer: Writer) -> None:
    for _ in range(5):
        writer.write()
        wait_for(log, range(writer.written))


@pytest.mark.usefixtures("following")
def test_a_line_is_imported_when_it_is_complete(log: EventLog, writer: Writer) -> None:
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
    """The server keeps writing to the renamed file for a moment."""
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
    """Lines written just before the truncation are only in the copy; GoAccess 1.7 counts such a copy twice."""
    for _ in range(3):
        writer.write(20)
        wait_for(log, range(writer.written))
        writer.write(5)
        shutil.copy(writer.path, writer.path.with_name("access.log.1"))
        writer.path.write_text("")
        writer.write(20)
        wait_for(log, range(writer.written))
    assert len(log.imports().items) == 4


def test_following_again_continues(log: EventLog, writer: Writer) -> None:
    writer.write(10)
    stop = threading.Event()
    stop.set()
    told: list[int] = []
    log.follow(writer.path, stop=stop, on_import=lambda imported: told.append(imported.counts.stored))
    writer.write(7)
    log.follow(writer.path, stop=stop, on_import=lambda imported: told.append(imported.counts.stored))
    assert told == [10, 7]


def rotate(writer: Writer, *, compress: bool = False) -> None:
    """Rotate by rename, as logrotate does; from the second one on, the rotated logs may be compressed."""
    folder, name = writer.path.parent, writer.path.name
    for number in (2, 1):
        for old in folder.glob(f"{name}.{number}*"):
            old.rename(folder / old.name.replace(f"{name}.{number}", f"{name}.{number + 1}"))
    if compress and (first := folder / f"{name}.2").exists():
        first.with_name(f"{name}.2.gz").write_bytes(gzip.compress(first.read_bytes()))
        first.unlink()
    writer.path.rename(folder / f"{name}.1")


@pytest.mark.parametrize("compress", [False, True])
def test_rotations_while_nobody_follows(log: EventLog, writer: Writer, compress: bool) -> None:
    stop = threading.Event()
    stop.set()
    writer.path.with_name("access.log.1").write_text(line(1_000_000))  # from before anybody followed
    writer.write()
    log.follow(writer.path, stop=stop)
    assert log.count() == 10
    for _ in range(2):
        writer.write()
        rotate(writer, compress=compress)
    writer.write()
    log.follow(writer.path, stop=stop)
    wait_for(log, range(writer.written))
    assert len(log.imports().items) == 3


def test_a_rotated_log_is_compressed_just_before_it_is_read(log: EventLog, writer: Writer) -> None:
    """Regression: following ended when a rotated log was gone under the name it had a moment before."""
    stop = threading.Event()
    writer.write()
    log.import_file(writer.path)
    for _ in range(2):
        writer.write()
        rotate(writer)
    writer.write()

    def compress(_: object) -> None:
        if (first := writer.path.with_name("access.log.1")).exists():
            first.with_name("access.log.1.gz").write_bytes(gzip.compress(first.read_bytes()))
            first.unlink()

    options = {"stop": stop, "poll_seconds": 0.02, "on_import": compress}
    thread = threading.Thread(target=log.follow, args=(writer.path,), kwargs=options)
    thread.start()
    wait_for(log, range(writer.written))
    stop.set()
    thread.join()
    assert len(log.imports().items) == 3


def test_rotations_while_mongodb_is_away(own_db: Db, failing: Failing, writer: Writer) -> None:
    apply(own_db, COLLECTIONS)
    log, stop = EventLog(own_db), threading.Event()
    thread = threading.Thread(target=log.follow, args=(writer.path,), kwargs={"stop": stop, "poll_seconds": 0.02})
    writer.write()
    thread.start()
    wait_for(log, range(10))
    with failing(["find", "insert", "distinct", "findAndModify"], closeConnection=True, appName="squinney"):
        for _ in range(3):
            writer.write()
            rotate(writer)
        writer.write()
        time.sleep(0.2)
    wait_for(log, range(writer.written))
    stop.set()
    thread.join()
    assert len(log.imports().items) == 4


@pytest.mark.timeout(20)
def test_bad_arguments_of_follow_are_refused(log: EventLog, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="directory"):
        log.follow(tmp_path)
    with pytest.raises(Invalid, match="identified by its content"):
        log.follow(tmp_path / "access.log", source="web")
    for span in (float("nan"), -1, "1"):
        with pytest.raises(Invalid, match="poll_seconds"):
            log.follow(tmp_path / "access.log", poll_seconds=span)  # type: ignore[arg-type]


@pytest.mark.usefixtures("following")
def test_the_renamed_log_is_written_to_while_the_new_one_has_lines(log: EventLog, writer: Writer) -> None:
    """Apache does this after a graceful restart, until its old processes have ended."""
    writer.write(10)
    wait_for(log, range(10))
    rotated = writer.path.with_name("access.log.1")
    writer.path.rename(rotated)
    late = Writer(rotated)
    for _ in range(3):
        late.written = writer.written
        late.write(5)
        writer.written = late.written
        writer.write(5)
        wait_for(log, range(writer.written))
    assert len(log.imports().items) == 2


@pytest.mark.usefixtures("following")
@pytest.mark.parametrize("name", ["access.log-20150517", "access-20150517.log"])
def test_a_rotated_copy_with_a_date_in_its_name(log: EventLog, writer: Writer, name: str) -> None:
    """With logrotate's `dateext` and `copytruncate`, lines written just before the truncation are only in the copy."""
    for number in range(2):
        writer.write(20)
        wait_for(log, range(writer.written))
        writer.write(5)
        shutil.copy(writer.path, writer.path.with_name(name.replace("17", f"{17 + number}")))
        writer.path.write_text("")
        writer.write(20)
        wait_for(log, range(writer.written))
    assert len(log.imports().items) == 3


@pytest.mark.parametrize(
    "moment", ["squinney.analytics.events.sources.find", "squinney.analytics.events.imports.chunks"]
)
def test_a_log_that_is_truncated_while_it_is_compared(
    log: EventLog, writer: Writer, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The rest that is read then belongs to another log; as one log, its lines would be stored twice or lost."""
    writer.write(20)
    log.import_file(writer.path)
    writer.write(5)
    module, _, name = moment.rpartition(".")
    real, cut = getattr(importlib.import_module(module), name), threading.Event()

    def cut_once(*args: Any, **kwargs: Any) -> Any:
        if not cut.is_set():
            cut.set()
            shutil.copy(writer.path, writer.path.with_name("access.log.1"))
            writer.path.write_text("")
            writer.write(30)
        return real(*args, **kwargs)

    monkeypatch.setattr(moment, cut_once)
    with suppress(ImportRunning):
        log.import_file(writer.path)
    assert cut.is_set()
    for path in (writer.path.with_name("access.log.1"), writer.path):
        log.import_file(path)
        writer.write(10)
        log.import_file(writer.path)
    wait_for(log, range(writer.written))
    assert sum(one["rejected"] for one in log.imports().items) == 0


@pytest.mark.usefixtures("following")
def test_a_truncated_log_with_a_hole(log: EventLog, writer: Writer) -> None:
    """A server that keeps writing at its old position in a truncated file leaves a hole of NUL bytes."""
    writer.write(20)
    wait_for(log, range(20))
    length = writer.path.stat().st_size
    shutil.copy(writer.path, writer.path.with_name("access.log.1"))
    os.truncate(writer.path, 0)
    os.truncate(writer.path, length)
    writer.write(20)
    wait_for(log, range(40))


@pytest.mark.usefixtures("following")
def test_a_log_that_begins_with_other_lines_is_followed(
    log: EventLog, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lines are no events yet, which is a warning once, and ends nothing."""
    for _ in range(2):
        with writer.path.open("a") as file:
            file.write("the server has started\n")
        time.sleep(0.1)
    writer.write(5)
    wait_for(log, range(5))
    (message,) = caplog.messages
    assert "none of its lines is an event; line 1: in none of the formats" in message
    assert log.imports().items[0]["rejected"] == 2


def test_a_log_is_followed_again_in_another_format(log: EventLog, writer: Writer) -> None:
    stop = threading.Event()
    stop.set()
    writer.write(5)
    log.follow(writer.path, stop=stop, format="json")
    assert log.imports().items[0]["state"] == "rejected"
    log.follow(writer.path, stop=stop)
    wait_for(log, range(5))
    assert log.imports().items[0]["rejected"] == 0


def test_following_waits_for_another_import(log: EventLog, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.write(5)
    stop, real, refused = threading.Event(), EventLog._import, []

    def busy_at_first(self: EventLog, *args: object, **options: object) -> object:
        if not refused:
            refused.append(True)
            raise ImportRunning("another process is importing it")
        stop.set()
        return real(self, *args, **options)

    monkeypatch.setattr(EventLog, "_import", busy_at_first)
    log.follow(writer.path, stop=stop, poll_seconds=0.01)
    wait_for(log, range(5))
