"""Following loses no file: logs that are rotated while others are read, while nobody follows, or that are gone."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from tests.systems.analytics.conftest import line
from tests.systems.analytics.test_follow import Writer, rotate, wait_for, writer

from squinney.analytics import EventLog
from squinney.analytics.errors import ImportRunning
from squinney.analytics.events import sources
from squinney.analytics.log_files.content import LogContent
from squinney.clock import utcnow
from squinney.mongo.schema import Db

__all__ = ["writer"]


class Steps(threading.Event):
    """Runs one step after each poll, and stops after the last one: nothing happens while the log is looked at."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__()
        self._steps = list(steps)

    def wait(self, timeout: float | None = None) -> bool:
        if self._steps:
            self._steps.pop(0)()
        else:
            self.set()
        return self.is_set()


def follow_once(log: EventLog, writer: Writer) -> None:
    log.follow(writer.path, stop=Steps())


def copy_and_truncate(writer: Writer) -> None:
    first = writer.path.with_name("access.log.1")
    if first.exists():
        first.rename(writer.path.with_name("access.log.2"))
    shutil.copy(writer.path, first)
    writer.path.write_text("")


def stop_at_each(log: EventLog, writer: Writer, act: Callable[[], object]) -> None:
    """Follow the log, and act once, at the first import: then the follower still catches up."""
    acted: list[object] = []

    def once(_: object) -> None:
        if not acted:
            acted.append(act())

    log.follow(writer.path, stop=Steps(), on_import=once)


@pytest.mark.parametrize("rotations", [1, 2, 3])
def test_rotations_while_the_follower_catches_up(log: EventLog, writer: Writer, rotations: int) -> None:
    """Regression: the log that was rotated while an older one was read was never read."""
    writer.write()
    log.import_file(writer.path)
    writer.write()
    rotate(writer)
    writer.write()

    def rotate_often() -> None:
        for _ in range(rotations):
            rotate(writer)
            writer.write()

    stop_at_each(log, writer, rotate_often)
    wait_for(log, range(writer.written))
    assert len(log.imports().items) == 2 + rotations


def test_a_copy_and_truncation_while_the_follower_catches_up(log: EventLog, writer: Writer) -> None:
    writer.write()
    log.import_file(writer.path)
    writer.write()
    copy_and_truncate(writer)
    writer.write()

    def again() -> None:
        copy_and_truncate(writer)
        writer.write()

    stop_at_each(log, writer, again)
    wait_for(log, range(writer.written))


def test_a_rotation_while_the_rotated_logs_are_looked_at(
    log: EventLog, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another log has the name a moment later; the follower must read the one that it found."""
    writer.write()
    log.import_file(writer.path)
    writer.write()
    rotate(writer)
    writer.write()
    rotate(writer)
    writer.write()
    real, rotated = Path.open, []

    def open_and_rotate(path: Path, *args: object, **options: object) -> object:
        file = real(path, *args, **options)  # type: ignore[call-overload]
        if path.name == "access.log.2" and not rotated:  # the last one that is looked at, as it is known
            rotated.append(True)
            rotate(writer)
            writer.write()
        return file

    monkeypatch.setattr(Path, "open", open_and_rotate)
    follow_once(log, writer)
    assert rotated
    wait_for(log, range(writer.written))


@pytest.mark.parametrize("kept", [1, 2])
def test_the_known_log_is_gone(
    log: EventLog, writer: Writer, caplog: pytest.LogCaptureFixture, tmp_path: Path, kept: int
) -> None:
    """Regression: all logs that were rotated meanwhile were passed over without a word."""
    writer.write()
    follow_once(log, writer)
    for _ in range(kept):
        rotate(writer)
        writer.write()
    rotate(writer)
    (tmp_path / f"access.log.{kept + 1}").unlink()
    assert not caplog.messages
    follow_once(log, writer)  # there is no new log yet
    writer.write()
    follow_once(log, writer)
    wait_for(log, range(writer.written))
    (message,) = caplog.messages
    assert str(writer.path) in message
    assert "lines at its end may be lost" in message
    assert all(f"access.log.{number}" in message for number in range(1, kept + 1))


def test_late_lines_of_the_log_before_the_newest_known_one(log: EventLog, writer: Writer, tmp_path: Path) -> None:
    """A server wrote them after a graceful restart, when its new log was read already; then the follower was down."""
    writer.write()
    follow_once(log, writer)
    rotate(writer)
    writer.write()
    follow_once(log, writer)
    late = Writer(tmp_path / "access.log.1")
    late.written = writer.written
    late.write()
    writer.written = late.written
    rotate(writer)
    writer.write()
    follow_once(log, writer)
    wait_for(log, range(writer.written))


def test_a_start_names_the_older_logs_that_are_not_imported(
    log: EventLog, writer: Writer, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    older = Writer(tmp_path / "access.log.1")
    older.written = 1_000_000
    older.write()
    for _ in range(2):
        writer.write()
        follow_once(log, writer)
        rotate(writer)
    follow_once(log, writer)
    assert [message.rpartition(": ")[2] for message in caplog.messages] == [f"access.log.{n}" for n in (1, 2, 3)]
    wait_for(log, range(writer.written))


def test_a_log_that_was_imported_by_hand_meanwhile(log: EventLog, writer: Writer, tmp_path: Path) -> None:
    """It does not mean that the ones before it were imported."""
    writer.write()
    follow_once(log, writer)
    for _ in range(3):
        rotate(writer)
        writer.write()
    log.import_file(tmp_path / "access.log.1")
    log.import_file(writer.path)
    follow_once(log, writer)
    wait_for(log, range(writer.written))


def test_a_log_that_is_deleted_between_two_polls_is_named(
    log: EventLog, writer: Writer, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    writer.write()

    def rotate_twice() -> None:
        for _ in range(2):
            rotate(writer)
            writer.write()
        (tmp_path / "access.log.2").unlink()

    log.follow(writer.path, stop=Steps(rotate_twice))
    wait_for(log, range(writer.written))
    (message,) = caplog.messages
    assert "may be lost; importing all that is here: access.log.1" in message


def test_a_log_of_which_only_lines_that_others_share_were_read(
    log: EventLog, writer: Writer, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Another log that begins so does not mean that the ones before it were read."""
    alike = "".join(line(1_000_000, path="/alike") for _ in range(20))
    writer.path.write_text(alike)
    writer.write()
    follow_once(log, writer)
    rotate(writer)
    writer.path.write_text(alike)
    follow_once(log, writer)
    rotate(writer)
    for _ in range(2):
        writer.path.write_text(alike)
        writer.write()
        rotate(writer)
    for number in (2, 3, 4):  # the second one is gone before it was read, and so are the ones before it
        (tmp_path / f"access.log.{number}").unlink(missing_ok=True)
    writer.write()
    follow_once(log, writer)
    assert "may be lost" in caplog.text


def test_a_log_of_which_nothing_was_read_yet(log: EventLog, analytics_db: Db, writer: Writer) -> None:
    """Regression: its process died before it stored a line; so the logs before it were taken for known."""
    writer.write()
    follow_once(log, writer)
    for _ in range(2):
        rotate(writer)
        writer.write()
    with writer.path.open("rb", buffering=0) as file:
        options = {"title": "access.log", "site": "", "clock": utcnow, "by_hand": False}
        sources.begin(analytics_db, LogContent(file), name=None, **options)
    rotate(writer)
    writer.write()
    follow_once(log, writer)
    wait_for(log, range(writer.written))


def test_a_log_that_was_replaced_is_read_after_the_ones_before_it(
    log: EventLog, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a follower that died then took all logs before it for known."""
    writer.write()
    follow_once(log, writer)
    rotate(writer)
    writer.write()
    rotate(writer)
    writer.write()
    real, order = EventLog._import, []

    def note(self: EventLog, file: BinaryIO, **options: Any) -> object:
        if not order:
            order.append("refused")
            rotate(writer)  # now the follower's log is replaced, too
            raise ImportRunning("another process is importing it")
        order.append(os.pread(file.fileno(), 60, 0).decode())
        return real(self, file, **options)

    monkeypatch.setattr(EventLog, "_import", note)
    log.follow(writer.path, stop=Steps(lambda: None))
    wait_for(log, range(writer.written))
    starts = [number for number in order[1:] if number]
    assert starts == sorted(starts)


def test_all_rotated_logs_are_gone(log: EventLog, writer: Writer, caplog: pytest.LogCaptureFixture) -> None:
    writer.write()
    follow_once(log, writer)
    writer.path.unlink()
    writer.write()
    follow_once(log, writer)
    wait_for(log, range(writer.written))
    assert "may be lost" in caplog.text


@pytest.mark.parametrize("starts_with", ["nothing", "an empty log"])
@pytest.mark.parametrize("rotated", [rotate, copy_and_truncate])
@pytest.mark.parametrize("times", [1, 2])
def test_the_first_log_is_rotated_before_any_line_was_read(
    log: EventLog, writer: Writer, starts_with: str, rotated: Callable[[Writer], None], times: int
) -> None:
    """Regression: the first log of a follower that was started on an empty log was lost."""
    if starts_with == "an empty log":
        writer.path.touch()

    def between_two_polls() -> None:
        for _ in range(times):
            writer.write()
            rotated(writer)
        writer.write()

    log.follow(writer.path, stop=Steps(between_two_polls))
    wait_for(log, range(writer.written))


def test_logs_from_before_the_first_call_are_named(
    log: EventLog, writer: Writer, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    for name in ("access.log.1", "access.log.2", "access.log-20150516"):
        older = Writer(tmp_path / name)
        older.written = 1_000_000
        older.write()

    def between_two_polls() -> None:
        writer.write()
        copy_and_truncate(writer)
        writer.write()

    (tmp_path / "access.log.2").rename(tmp_path / "access.log.3")  # a number may be free
    log.follow(writer.path, stop=Steps(between_two_polls))
    wait_for(log, range(writer.written))
    (message,) = caplog.messages
    assert "older logs are not imported: access.log.1, access.log.3, access.log-20150516" in message


def test_a_rotated_log_that_cannot_be_read_is_named(
    log: EventLog, writer: Writer, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    writer.write()
    follow_once(log, writer)
    rotate(writer)
    writer.write()
    rotate(writer)
    (tmp_path / "access.log.1").rename(tmp_path / "access.log.0")  # some number them from zero
    (tmp_path / "access.log.2").rename(tmp_path / "access.log.3")
    (tmp_path / "access.log.2").write_bytes(bytes(range(256)) * 20)
    writer.write()
    follow_once(log, writer)
    wait_for(log, range(writer.written))
    (message,) = caplog.messages
    assert "access.log.2 is not imported: the file is not a log" in message
