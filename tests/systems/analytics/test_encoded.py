"""The fast path from a line to BSON gives the same bytes as the general path, or None."""

from __future__ import annotations

from pathlib import Path

import bson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from squinney.analytics.events.sources import event_id
from squinney.analytics.events.storing import ALWAYS_KEPT, as_text, with_storage_fields
from squinney.analytics.parsers import FORMATS, Malformed
from squinney.analytics.parsers.encoded import _LONGEST_CACHED, _Cache, encoder

SOURCE = "0123456789abcdef"
USUAL = b'203.0.113.7 - - [17/May/2015:10:05:03 +0000] "GET /a?x=1 HTTP/1.1" 200 12 "http://r/" "Mozilla/5.0 (X11)"'


def encode_generally(
    line: bytes, offset: int, fields: set[str] | None = None, site: str = "", format: str = "combined"
) -> bytes:
    """Encode the line on the general path, with a string and a dict."""
    event = FORMATS[format](as_text(line))
    assert event is not None
    if site:
        event.setdefault("site", site)
    if fields is not None:
        event = {name: value for name, value in event.items() if name in fields | ALWAYS_KEPT}
    event = with_storage_fields(event, event_id(SOURCE, offset))
    return bson.encode({"_id": event.pop("_id"), **event})


def test_all_but_four_lines_of_the_real_log_take_the_fast_path(real_log: Path) -> None:
    encode, offset, left = encoder(SOURCE), 0, 0
    for line in real_log.read_bytes().splitlines(keepends=True):
        encoded = encode(line.rstrip(b"\n"), offset)
        if encoded is None:
            left += 1
        else:
            assert encoded == encode_generally(line.rstrip(b"\n"), offset), line
        offset += len(line)
    assert left == 4


WORD = st.text(st.characters(min_codepoint=0, max_codepoint=255), max_size=6).map(lambda text: text.encode("latin-1"))
ODD = [b"-", b"", b"?", b"?a=1", b"\\", b'"', b"]", b" ", b"\x1c", b"\0", b"\xc3\xa9"]
PART = st.one_of(WORD, st.sampled_from(ODD))
NUMBER = st.integers(0, 2**60).map(lambda n: b"%d" % n) | st.sampled_from([b"-", b"2147483647", b"2147483648"])
TIME = st.sampled_from(
    [
        b"17/May/2015:10:05:03 +0000",
        b"31/Dec/1969:23:59:60 -1130",
        b"30/Feb/2015:10:05:03 +0000",
        b"01/Jan/0001:00:00:00 +0100",
        b"now",
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Generate lines that look like the combined format, with arbitrary bytes in their fields."""
    host, user, path, query, referer, agent = (draw(PART) for _ in range(6))
    method = draw(st.sampled_from([b"GET", b"POST", b"get", b"-", b"PROPFIND"]))
    status = draw(st.sampled_from([b"200", b"404", b"20"]))
    return b'%s - %s [%s] "%s /%s%s HTTP/1.1" %s %s "%s" "%s"' % (
        host,
        user,
        draw(TIME),
        method,
        path,
        query,
        status,
        draw(NUMBER),
        referer,
        agent,
    )


FIELDS = st.none() | st.sets(st.sampled_from(["host", "path", "bytes", "status", "user_agent", "referer", "user"]))


@given(st.one_of(WORD, st.sampled_from([*ODD, b"a.org:80", b"a.org:x"])), lines(), FIELDS)
@example(b"a.org:80", USUAL, None)
@example(b"-", USUAL, None)
def test_any_line_with_a_virtual_host_gives_the_same_bytes_or_none(
    host: bytes, line: bytes, fields: set[str] | None
) -> None:
    line = host + b" " + line
    encoded = encoder(SOURCE, fields, "other.org", vhost=True)(line, 7)
    if encoded is not None:
        assert encoded == encode_generally(line, 7, fields, "other.org", "vhost_combined")


def test_a_common_line_with_a_virtual_host_takes_the_fast_path() -> None:
    encoded = encoder(SOURCE, {"host"}, vhost=True)(b"example.org:80 " + USUAL, 7)
    assert bson.decode(encoded or b"")["site"] == "example.org"


@given(lines(), st.integers(0, 2**49), FIELDS)
@example(USUAL, 0, None)
@example(USUAL, 2**48, None)
@example(USUAL.replace(b" 12 ", b" - "), 1, None)
@example(USUAL.replace(b"203.0.113.7", b"-"), 1, None)
def test_any_line_gives_the_same_bytes_or_none(line: bytes, offset: int, fields: set[str] | None) -> None:
    encode = encoder(SOURCE, fields)
    for _ in range(2):  # the second time from what was kept
        encoded = encode(line, offset)
        if encoded is None:
            continue
        try:
            assert encoded == encode_generally(line, offset, fields)
        except Malformed:
            pytest.fail(f"{line!r} is not an event")


@pytest.mark.parametrize("site", ["", "example.org", "bücher.example"])
def test_a_common_line_takes_the_fast_path(site: str) -> None:
    assert encoder(SOURCE, {"host"}, site)(USUAL, 7) == encode_generally(USUAL, 7, {"host"}, site)


def test_the_cache_is_bounded() -> None:
    seen = _Cache(lambda value: value + b"!")
    for number in range(10_000):
        assert seen[b"%d" % number] == b"%d!" % number
    assert seen[b"x" * 5_000] == b"x" * 5_000 + b"!"
    assert 0 < len(seen) <= 4_096
    assert max(map(len, seen)) <= _LONGEST_CACHED
