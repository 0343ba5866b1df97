"""Imports: every line of any file is stored or rejected once."""

from __future__ import annotations

import bz2
import gc
import gzip
import io
import json
import lzma
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.systems.analytics.conftest import JUNE, MAY, line, stored_events

from squinney.analytics import EventLog, Import
from squinney.analytics.errors import ImportRunning, NotALog, NotUnderstood
from squinney.analytics.events import imports, sources
from squinney.analytics.log_files import chunks as reading
from squinney.analytics.log_files.content import LogContent
from squinney.clock import utcnow
from squinney.errors import Invalid
from squinney.mongo.schema import Db


def awk(program: str, path: Path) -> Counter[tuple[str, ...]]:
    """Count with awk, independently of our code."""
    done = subprocess.run(["awk", program, str(path)], capture_output=True, text=True, check=True)
    return Counter(tuple(row.split("\t")) for row in done.stdout.splitlines())


def test_each_line_of_the_real_log_is_stored_or_rejected(log: EventLog, analytics_db: Db, real_log: Path) -> None:
    imported = log.import_file(real_log)

    assert imported.counts.lines == 10_000
    assert imported.counts.stored == len(stored_events(analytics_db)) == 9_999
    (reject,) = log.rejects(imported.source["_id"]).items
    assert reject["line_number"] == 8_899
    assert reject["line"].startswith("46.118.127.106 - - [20/May/2015:12:05:17 +0000]")
    assert "quotation mark" in reject["reason"]


def test_counts_by_day_and_path_agree_with_awk(log: EventLog, real_log: Path) -> None:
    log.import_file(real_log)
    counted = awk(
        r"""/"$/ { split($7, target, "?"); print substr($4, 2, 2) "\t" substr(target[1], 1, 512) }""",
        real_log,
    )
    rows, cursor = [], None
    while not rows or cursor:
        page = log.count_by_day_and_path(MAY, JUNE, cursor=cursor)
        rows, cursor = rows + page.items, page.next
    assert rows == sorted(rows, key=lambda row: (row["day"], row["path"]))
    assert {(f"{row['day']:%d}", row["path"]): row["count"] for row in rows} == dict(counted)


def log_of_day(day: int, lines: int = 40) -> bytes:
    """Return a log that differs for each day, and is longer than a source's head."""
    text = "".join(line(number, path=f"/{day}/{number}") for number in range(lines))
    return text.encode()


def test_a_known_log_after_others_in_one_stream_is_stored_once(log: EventLog, analytics_db: Db) -> None:
    first, second, third, fourth = (log_of_day(day) for day in (1, 2, 3, 4))
    log.import_file(io.BytesIO(second))
    log.import_file(io.BytesIO(fourth))
    imported = log.import_file(Pipe(first + second + third + fourth))
    assert (imported.counts.lines, imported.note) == (80, imports.JOINED)
    assert len(stored_events(analytics_db)) == 160
    again = log.import_file(Pipe(first + second + third + fourth))
    assert again.counts.lines == 0
    assert imports.ALREADY_IMPORTED in again.note


def test_a_known_log_in_a_stream_continues_as_its_own_source(log: EventLog, analytics_db: Db) -> None:
    """Its lines from the pipe are not stored again from the file, and the log before it can grow."""
    first, second = log_of_day(1), log_of_day(2, 60)
    log.import_file(io.BytesIO(second[: second.index(b"/2/40")]))
    assert log.import_file(Pipe(first + second)).counts.stored == 40 + 20
    assert log.import_file(io.BytesIO(second)).counts.lines == 0
    assert log.import_file(io.BytesIO(log_of_day(1, 50))).counts.stored == 10
    assert len(stored_events(analytics_db)) == 110


def test_a_known_log_after_a_line_that_is_too_long_is_stored_once(log: EventLog, analytics_db: Db) -> None:
    """Lines that are read together with the end of a long line must be compared, too."""
    log.import_file(io.BytesIO(log_of_day(2)))
    long_line = b"x" * 2_000_000 + b"\n"
    imported = log.import_file(Pipe(log_of_day(1) + long_line + log_of_day(2)))
    assert (imported.counts.stored, imported.counts.rejected, imported.note) == (40, 1, imports.JOINED)
    assert len(stored_events(analytics_db)) == 80


def test_a_line_that_is_also_the_first_line_of_another_log_is_stored(log: EventLog, analytics_db: Db) -> None:
    other = log_of_day(2)
    log.import_file(io.BytesIO(other))
    shared = other[: other.index(b"\n") + 1]
    assert log.import_file(Pipe(log_of_day(1) + shared * 3 + log_of_day(3))).counts.stored == 83
    assert len(stored_events(analytics_db)) == 123


def test_a_file_is_one_log_whatever_is_in_it(log: EventLog, analytics_db: Db) -> None:
    """Servers that get nothing but the same health checks write the same lines."""
    log.import_file(io.BytesIO(log_of_day(2)))
    assert log.import_file(io.BytesIO(log_of_day(1) + log_of_day(2))).counts.stored == 80


def test_importing_again_adds_nothing_in_any_form(
    log: EventLog, analytics_db: Db, real_log: Path, tmp_path: Path
) -> None:
    content = real_log.read_bytes()
    log.import_file(real_log)
    copies = {
        "renamed.log": content,
        "access.log.1.gz": gzip.compress(content),
        "access.log.bz2": bz2.compress(content),
        "access.log.zst": zstandard.compress(content),
    }
    for name, copy in copies.items():
        (tmp_path / name).write_bytes(copy)
        again = log.import_file(tmp_path / name)
        assert again.counts.lines == 0
        assert "before" in again.note
    assert log.import_file(io.BytesIO(content)).counts.lines == 0
    assert len(stored_events(analytics_db)) == 9_999
    assert analytics_db["analytics.imports"].count_documents({}) == 1


@pytest.mark.parametrize(
    "pack", [lambda c: c, gzip.compress, bz2.compress, zstandard.compress], ids=["plain", "gz", "bz2", "zst"]
)
def test_each_compression_is_read(log: EventLog, tmp_path: Path, pack) -> None:
    path = tmp_path / "some"
    path.write_bytes(pack("".join(line(n) for n in range(50)).encode()))
    imported = log.import_file(path)
    assert imported.counts.stored == 50
    assert imported.source["state"] == "done"


def test_a_stream_is_read(log: EventLog) -> None:
    imported = log.import_file(io.BytesIO(b"".join(line(n).encode() for n in range(5))))
    assert imported.counts.stored == 5


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_a_stream_stays_open(log: EventLog, pack) -> None:
    stream = io.BytesIO(pack(line().encode()))
    assert log.import_file(stream).counts.stored == 1
    gc.collect()
    assert not stream.closed


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_a_stream_that_the_caller_decompresses(log: EventLog, tmp_path: Path, module: Any) -> None:
    """Regression: its beginning was compared with the compressed bytes of its file, and so seemed truncated."""
    path = tmp_path / "access.log.packed"
    path.write_bytes(module.compress((line(1) + line(2)).encode()))
    with module.open(path) as stream:
        assert log.import_file(stream).counts.stored == 2


def test_a_growing_file_continues_from_its_checkpoint(log: EventLog, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    for size in (1, 3, 30):
        path.write_text("".join(line(n) for n in range(size)))
        log.import_file(path)
    assert [event["bytes"] for event in log.by_path("/")] == list(range(30))
    assert len(log.imports().items) == 1


def test_logs_with_the_same_beginning_are_distinguished_when_both_grow(
    log: EventLog, analytics_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.import_file(io.BytesIO(line().encode()))
    mine, theirs = ((line() + "".join(line(n, path=path) for n in range(20))).encode() for path in ("/a", "/b"))
    find = sources.find

    def find_before_another(db: Db, head: bytes, name: str | None) -> Import | None:
        found = find(db, head, name)
        monkeypatch.undo()
        sources.begin(db, LogContent(io.BytesIO(theirs)), name=None, title="", site="", clock=utcnow)
        return found

    monkeypatch.setattr(sources, "find", find_before_another)
    with pytest.raises(ImportRunning, match="began with the same lines"):
        log.import_file(io.BytesIO(mine))
    for content in (mine, theirs):
        log.import_file(io.BytesIO(content))
    assert [len(list(log.by_path(path))) for path in ("/a", "/b")] == [20, 20]


def test_bytes_that_are_not_utf8_are_kept(log: EventLog) -> None:
    log.import_file(io.BytesIO(line(path="/caf\xe9").encode("latin-1")))
    assert [event["path"] for event in log.between(MAY, JUNE)] == [r"/caf\xe9"]


@pytest.mark.parametrize("where", ["first", "middle", "last", "last without end"])
def test_a_line_of_ten_megabytes_is_rejected_and_skipped(log: EventLog, where: str) -> None:
    monster = "x" * 10_000_000 + "\n"
    good = [line(n) for n in range(10)]
    lines = {"first": [monster, *good], "middle": [*good[:5], monster, *good[5:]], "last": [*good, monster]}
    content = "".join(lines.get(where, lines["last"]))
    stream = io.BytesIO((content[:-1] if "without" in where else content).encode())
    imported = log.import_file(stream, take_unterminated=True)
    assert (imported.counts.stored, imported.counts.rejected) == (10, 1)
    (reject,) = log.rejects(imported.source["_id"]).items
    assert "65,536" in reject["reason"]
    assert len(reject["line"]) == 1000
    assert reject["line_number"] == {"first": 1, "middle": 6}.get(where, 11)


@pytest.mark.parametrize("take_unterminated", [False, True])
def test_a_line_that_is_too_long_and_still_grows_is_one_line(
    log: EventLog, tmp_path: Path, take_unterminated: bool
) -> None:
    path = tmp_path / "access.log"
    path.write_text(line(1) + "x" * 70_000)
    log.import_file(path, take_unterminated=take_unterminated)
    with path.open("a") as file:
        file.write(line(2) + line(3))  # the first of which is the rest of the long one
    log.import_file(path, take_unterminated=take_unterminated)
    assert [event["bytes"] for event in log.between(MAY, JUNE)] == [1, 3]
    (source,) = log.imports().items
    assert source["rejected"] == (2 if take_unterminated else 1)


def test_a_line_that_is_too_long_grows_while_it_is_read(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: what was read after the unfinished line did not begin at the checkpoint: `ImportRunning`."""
    path = tmp_path / "access.log"
    path.write_text(line(1) + "x" * 70_000)
    real = reading._skip_line

    def skip_and_grow(*args: Any) -> Any:
        skipped = real(*args)
        with path.open("a") as file:
            file.write("x\n" + line(2))
        return skipped

    with monkeypatch.context() as patch:
        patch.setattr(reading, "_skip_line", skip_and_grow)
        assert log.import_file(path).counts.stored == 1
    log.import_file(path)
    assert [event["bytes"] for event in log.between(MAY, JUNE)] == [1, 2]


def test_a_lone_surrogate_stops_no_import(log: EventLog) -> None:
    entry = '{"time": 1700000000, "path": "/%s", "status": 200}\n'
    content = "".join(entry % path for path in ("a", "\\ud83d", "\\ud83d\\ude00")).encode()
    imported = log.import_file(io.BytesIO(content))
    assert (imported.counts.stored, imported.counts.rejected) == (2, 1)
    assert [event["path"] for event in log.by_path("/\U0001f600")] == ["/\U0001f600"]


def test_an_empty_file_is_noted(log: EventLog, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    imported = log.import_file(tmp_path / "empty")
    assert (imported.source, imported.note) == (None, "it is empty")
    assert log.imports().items == []


def test_a_binary_file_is_refused(log: EventLog) -> None:
    with pytest.raises(NotALog):
        log.import_file(io.BytesIO(bytes(range(256)) * 40))
    assert log.imports().items == []


def test_each_line_of_a_text_that_is_not_a_log_is_rejected(log: EventLog) -> None:
    with pytest.raises(
        NotUnderstood, match=r"stream: none of its lines is an event; line 1: in none of .*combined, .*w3c"
    ):
        log.import_file(io.BytesIO(b"dear diary\ntoday was nice\n"))
    assert log.imports().items[0]["rejected"] == 2


def test_blank_lines_alone_are_no_error(log: EventLog) -> None:
    imported = log.import_file(io.BytesIO(b"\n\n"))
    assert (imported.counts.blank, imported.note) == (2, imports.NO_EVENTS)


OWN_NAMES = "".join(f'{{"when": {1431857103 + n}, "page": "/", "sent": {n}}}\n' for n in range(50)).encode()
OWN_MAP = {"time": "when", "path": "page", "bytes": "sent"}


def test_an_import_that_rejects_every_line_is_repeated_in_another_format(log: EventLog, analytics_db: Db) -> None:
    """Regression: it ended as if all was well, and a repeat said that all of it was imported before."""
    for _ in range(2):
        with pytest.raises(NotUnderstood, match=r"tried combined, .*; line 1: JSON, but it has no time") as caught:
            log.import_file(io.BytesIO(OWN_NAMES))
        assert caught.value.imported.note == imports.NO_EVENTS
        (source,) = log.imports().items
        assert (source["state"], source["rejected"], len(log.rejects(source["_id"]).items)) == ("rejected", 50, 50)
    with pytest.raises(NotUnderstood, match="tried common; line 1: not the common format"):
        log.import_file(io.BytesIO(OWN_NAMES), format="common")
    assert analytics_db["analytics.rejects"].count_documents({}) == 50

    assert log.import_file(io.BytesIO(OWN_NAMES), field_map=OWN_MAP, site="s").counts.stored == 50
    assert sorted(event["bytes"] for event in log.between(MAY, JUNE)) == list(range(50))
    assert {event["site"] for event in log.between(MAY, JUNE)} == {"s"}
    (source,) = log.imports().items
    assert (source["state"], source["stored"], source["rejected"]) == ("done", 50, 0)
    assert analytics_db["analytics.rejects"].count_documents({}) == 0
    for options in ({}, {"field_map": OWN_MAP}):
        assert log.import_file(io.BytesIO(OWN_NAMES), **options).note == imports.ALREADY_IMPORTED


def test_an_import_that_ended_among_rejects_starts_over_in_another_format(log: EventLog, analytics_db: Db) -> None:
    def end(_: object) -> None:
        raise KeyboardInterrupt

    options = imports.Options(chunk_bytes=500)
    with pytest.raises(KeyboardInterrupt):
        imports.import_stream(analytics_db, io.BytesIO(OWN_NAMES), options, after_checkpoint=end)
    assert analytics_db["analytics.rejects"].count_documents({}) > 0
    assert log.import_file(io.BytesIO(OWN_NAMES), field_map=OWN_MAP).counts.stored == 50
    assert analytics_db["analytics.rejects"].count_documents({}) == 0


def test_a_log_whose_new_lines_are_all_rejected_is_no_error(log: EventLog) -> None:
    log.import_file(io.BytesIO(line().encode()))
    assert log.import_file(io.BytesIO(line().encode() + b"garbage\n"), format="json").note == imports.NO_EVENTS
    assert log.import_file(io.BytesIO(line().encode() + b"garbage\n")).note == imports.ALREADY_IMPORTED
    assert (log.count(), len(log.rejects(log.imports().items[0]["_id"]).items)) == (1, 1)


def test_a_rejected_log_before_a_known_one_in_a_stream_is_an_error(log: EventLog) -> None:
    log.import_file(io.BytesIO(log_of_day(2)))
    with pytest.raises(NotUnderstood) as caught:
        log.import_file(Pipe(OWN_NAMES + log_of_day(2)))
    assert caught.value.imported.counts.rejected == 50


W3C = b"#Fields: date time c-ip cs-method cs-uri-stem sc-status\n2015-05-17 10:05:03 203.0.113.7 GET / 200\n"
JSON = b'{"time": "2015-05-17T10:05:03Z", "ip": "203.0.113.7", "method": "GET", "uri": "/", "status": 200}\n'


@pytest.mark.parametrize("content", [line().encode(), JSON, W3C])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_byte_order_mark_is_not_part_of_the_first_line(
    log: EventLog, content: bytes, pack: Callable[[bytes], bytes]
) -> None:
    """Regression: it was part of the visitor's address, or the line was rejected."""
    for _ in range(2):
        imported = log.import_file(io.BytesIO(pack(b"\xef\xbb\xbf" + content)))
    assert imported.note == imports.ALREADY_IMPORTED
    (event,) = log.by_host("203.0.113.7")
    assert (event["method"], event["path"], event["status"]) == ("GET", "/", 200)


def test_a_container_log_has_requests_and_messages(log: EventLog) -> None:
    def written(text: str, stream: str) -> str:
        return json.dumps({"log": text, "stream": stream, "time": "2015-05-17T10:05:03.1Z"}, separators=(",", ":"))

    lines = [written("start worker process\n", "stderr"), written("\n", "stdout"), written(line(7), "stdout")]
    imported = log.import_file(io.BytesIO(("\n".join(lines) + "\n").encode()))
    counts = imported.counts
    assert (counts.stored, counts.rejected, counts.blank, imported.source["format"]) == (1, 1, 1, "combined")
    (event,) = log.by_host("203.0.113.7")
    assert (event["bytes"], event["time"].second) == (7, 3)


def test_a_list_of_forwarded_addresses_is_no_virtual_host(log: EventLog) -> None:
    lines = [
        line(1),
        line(2, host="198.51.100.1, 10.0.0.1"),
        f"example.org:80 {line(3, host='198.51.100.2, 10.0.0.1')}",
    ]
    for lines_of_a_log in (lines[:2], lines[2:]):
        log.import_file(io.BytesIO("".join(lines_of_a_log).encode()))
    found = {event["bytes"]: (event["host"], event.get("site")) for event in log.between(MAY, JUNE)}
    assert found == {
        1: ("203.0.113.7", None),
        2: ("198.51.100.1", None),
        3: ("198.51.100.2", "example.org"),
    }


def test_the_readable_lines_of_a_truncated_gzip_are_stored(log: EventLog, tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress("".join(line(n) for n in range(20_000)).encode())[:-5_000])
    imported = log.import_file(path)
    assert 0 < imported.counts.stored < 20_000
    assert "cut short" in imported.note
    assert imported.source["state"] == "incomplete"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_last_line_is_imported_when_it_is_complete(log: EventLog, pack: Callable[[bytes], bytes]) -> None:
    """Regression: its beginning was stored, and its rest rejected when the whole log was imported."""
    content = (line(1) + line(2) + line(3)).encode()
    cut = log.import_file(io.BytesIO(pack(content[:-30])))
    assert (cut.counts.stored, cut.counts.rejected) == (2, 0)
    assert "no line end yet" in cut.note
    whole = log.import_file(io.BytesIO(pack(content)))
    assert (whole.counts.stored, whole.counts.rejected) == (1, 0)
    assert [event["bytes"] for event in log.between(MAY, JUNE)] == [1, 2, 3]


def test_a_truncated_gzip_is_completed_by_a_later_import(log: EventLog) -> None:
    packed = gzip.compress("".join(line(n) for n in range(20_000)).encode())
    assert "cut short" in log.import_file(io.BytesIO(packed[:-5_000])).note
    assert log.import_file(io.BytesIO(packed)).counts.rejected == 0
    (source,) = log.imports().items
    assert (source["stored"], source["rejected"], source["state"]) == (20_000, 0, "done")


def test_logs_of_two_servers_with_the_same_beginning(log: EventLog) -> None:
    """Regression: with the same first kilobyte, only 2 of 19 lines were stored."""
    checks = "".join(line(0, path="/health") for _ in range(17))
    for number, path in enumerate(("/a", "/b", "/c")):
        stored = log.import_file(io.BytesIO((checks + line(1, path=path) + line(2, path=path)).encode())).counts.stored
        assert (number, stored) == (number, 19)
    shorter = log.import_file(io.BytesIO((checks + line(1, path="/d")).encode()))
    assert shorter.counts.stored == 18
    for again in ("/a", "/b", "/c"):
        content = checks + line(1, path=again) + line(2, path=again)
        assert log.import_file(io.BytesIO(content.encode())).counts.lines == 0
        assert log.import_file(io.BytesIO((content + line(3, path=again)).encode())).counts.stored == 1
    assert log.import_file(io.BytesIO((checks + line(1, path="/a")).encode())).counts.lines == 0  # an older copy


def test_two_logs_that_differ_only_after_the_stored_first_lines(log: EventLog) -> None:
    """The bytes before the checkpoint distinguish them."""
    alike = "".join(line(0, path="/health") for _ in range(1_100))
    for path in ("/a", "/b"):
        content = (alike + line(1, path=path) + line(2, path=path)).encode()
        assert log.import_file(io.BytesIO(content)).counts.stored == 1_102


class Pipe(io.RawIOBase):
    """A stream that cannot seek, and returns small portions."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._content.read(min(700, len(buffer)))
        buffer[: len(found)] = found
        return len(found)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_a_pipe_is_also_identified_by_its_content(log: EventLog, pack: Callable[[bytes], bytes]) -> None:
    alike = "".join(line(n, path="/same") for n in range(40))
    for path in ("/a", "/b"):
        content = (alike + "".join(line(n, path=path) for n in range(40))).encode()
        assert log.import_file(Pipe(pack(content))).counts.stored == 80
        assert log.import_file(io.BufferedReader(Pipe(pack(content)))).counts.lines == 0
        assert log.import_file(Pipe(pack(content + line().encode()))).counts.stored == 1


def test_nul_bytes_before_the_first_line_are_skipped(log: EventLog) -> None:
    """A server that keeps writing at its old position in a truncated log leaves them."""
    content = bytes(3_000_000) + (line(1) + line(2)).encode()
    assert log.import_file(io.BytesIO(content)).counts.stored == 2
    assert log.import_file(io.BytesIO(content + line(3).encode())).counts.stored == 1
    assert log.import_file(io.BytesIO(bytes(5_000))).note == "it is empty"


def test_an_unfinished_last_line_is_imported_and_its_rest_rejected(log: EventLog, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(line(1) + line(2).rstrip("\n"))
    assert log.import_file(path, take_unterminated=True).counts.stored == 2
    path.write_text(line(1) + line(2) + line(3))
    assert log.import_file(path, take_unterminated=True).counts.stored == 1
    path.write_text(line(1) + line(2) + line(3) + line(4).rstrip("\n"))
    log.import_file(path, take_unterminated=True)
    path.write_text(line(1) + line(2) + line(3) + line(4).rstrip("\n") + " more\n" + line(5))
    imported = log.import_file(path, take_unterminated=True)
    assert (imported.counts.stored, imported.counts.rejected) == (1, 1)
    assert "before the line was complete" in log.rejects(imported.source["_id"]).items[0]["reason"]


@pytest.mark.parametrize("format", ["auto", "json"])
def test_a_log_whose_format_is_detected_only_later(log: EventLog, tmp_path: Path, format: str) -> None:
    path = tmp_path / "access.log"
    path.write_text("the server has started\n")
    with pytest.raises(NotUnderstood):
        log.import_file(path)
    with path.open("a") as file:
        file.write('{"time": 1700000000, "path": "/", "method": "GET"}\n')
    assert log.import_file(path, format=format).counts.stored == 1
    assert log.imports().items[0]["format"] == "json"


@pytest.mark.parametrize("options", [{"fields": {"pth"}}, {"field_map": {"pth": "uri"}}, {"format": "iis"}])
def test_a_bad_option_starts_no_import(log: EventLog, options: dict) -> None:
    with pytest.raises(Invalid):
        log.import_file(io.BytesIO(line().encode()), **options)
    assert log.imports().items == []


def test_a_file_whose_name_is_not_utf8(log: EventLog, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.log")
    path.write_text(line())
    assert log.import_file(path).source["name"] == r"caf\xe9.log"


def test_only_the_wanted_fields_are_kept(log: EventLog) -> None:
    log.import_file(io.BytesIO(line().encode()), fields={"host", "path"})
    (event,) = log.between(MAY, JUNE)
    assert set(event) == {"time", "host", "path"}


def test_a_missing_file_is_one_clear_error(log: EventLog) -> None:
    with pytest.raises(Invalid, match="No such file"):
        log.import_file("/no/such/file")


def test_two_imports_of_one_source_store_each_line_once(log: EventLog, analytics_db: Db, real_log: Path) -> None:
    """One of them stops when it notices the other; events stored by both have the same ids."""
    other = EventLog(analytics_db)
    overtaken = []

    def race(_: object) -> None:
        if not overtaken:
            overtaken.append(True)
            other.import_file(real_log)

    with pytest.raises(ImportRunning):
        log.import_file(real_log, after_checkpoint=race)
    assert len(stored_events(analytics_db)) == 9_999
    assert analytics_db["analytics.imports"].find_one()["lines"] == 10_000


# ---- sites, and fields that a line before tells ----


def test_events_carry_their_site(log: EventLog) -> None:
    log.import_file(io.BytesIO(line(1).encode()), site="example.org")
    log.import_file(io.BytesIO(f"other.example:443 {line(2)}".encode()), site="example.org")
    log.import_file(io.BytesIO(line(3).encode()))
    log.import_file(io.BytesIO(line(4).replace("\n", ' "one field more"\n').encode()), site="example.org")
    sites = {event["bytes"]: event.get("site") for event in log.between(MAY, JUNE)}
    assert sites == {1: "example.org", 2: "other.example", 3: None, 4: "example.org"}


def test_the_fields_of_a_log_may_change_between_chunks(log: EventLog, analytics_db: Db) -> None:
    """Any worker may parse a chunk and needs the `#Fields:` line before it; so does the next import."""
    first = ["#Fields: date time c-ip cs-uri-stem", *(f"2015-05-17 10:00:{n % 60:02} h /a{n}" for n in range(200))]
    second = ["#Fields: date time cs-uri-stem c-ip", *(f"2015-05-17 10:00:{n % 60:02} /b{n} h" for n in range(200))]
    content = "\n".join([*first, *second]) + "\n"
    options = imports.Options(chunk_bytes=500)
    for stream in (content, content + "2015-05-17 11:00:00 /c h\n"):
        imports.import_stream(analytics_db, io.BytesIO(stream.encode()), options)
    events = list(log.between(MAY, JUNE))
    assert {event["host"] for event in events} == {"h"}
    assert len(events) == 401
    (source,) = log.imports().items
    assert (source["rejected"], source["blank"]) == (0, 2)
    assert source["format"] == second[0]


def test_the_date_of_a_log_may_be_in_an_earlier_chunk(log: EventLog, analytics_db: Db) -> None:
    lines = ["#Date: 2015-05-17 00:00:00", "#Fields: time cs-uri-stem", *(f"10:00:00 /a{n}" for n in range(100))]
    content = "\n".join([*lines, "#Date: 2015-05-18 00:00:00", *(f"10:00:00 /b{n}" for n in range(100))]) + "\n"
    options = imports.Options(chunk_bytes=500)
    for stream in (content, content + "11:00:00 /c\n"):
        imports.import_stream(analytics_db, io.BytesIO(stream.encode()), options)
    days = Counter((event["time"].day, event["path"][:2]) for event in log.between(MAY, JUNE))
    assert days == {(17, "/a"): 100, (18, "/b"): 100, (18, "/c"): 1}
