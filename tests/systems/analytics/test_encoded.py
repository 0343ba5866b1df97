"""The fast path from a line to BSON gives the same bytes as the general path, or None."""

from __future__ import annotations

from pathlib import Path

import bson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from squinney.analytics.events.lines import ALWAYS_KEPT, decoded_line
from squinney.analytics.events.pages import encoded as encode_document
from squinney.analytics.events.pages import milliseconds
from squinney.analytics.parsers import FORMATS, Malformed
from squinney.analytics.parsers.encoded import _MAX_CACHED_LENGTH, _Cache, encoder

USUAL = b'203.0.113.7 - - [17/May/2015:10:05:03 +0000] "GET /a?x=1 HTTP/1.1" 200 12 "http://r/" "Mozilla/5.0 (X11)"'


def encode_generally(line: bytes, fields: set[str] | None = None, format: str = "combined") -> tuple[int, str, bytes]:
    """Encode the line on the general path, with a string and a dict."""
    event = FORMATS[format](decoded_line(line))
    assert event is not None
    if fields is not None:
        event = {name: value for name, value in event.items() if name in fields | ALWAYS_KEPT}
    return milliseconds(event["time"]), event.pop("site", ""), encode_document(event)


def test_all_but_four_lines_of_the_real_log_take_the_fast_path(real_log: Path) -> None:
    encode, left = encoder(), 0
    for line in real_log.read_bytes().splitlines():
        encoded = encode(line)
        if encoded is None:
            left += 1
        else:
            assert encoded == encode_generally(line), line
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
@example(b"192.0.2.80", USUAL, None)
def test_any_line_with_a_virtual_host_gives_the_same_bytes_or_none(
    host: bytes, line: bytes, fields: set[str] | None
) -> None:
    line = host + b" " + line
    encoded = encoder(fields, vhost=True)(line)
    if encoded is not None:
        assert encoded == encode_generally(line, fields, "vhost_combined")


def test_a_common_line_with_a_virtual_host_takes_the_fast_path() -> None:
    encoded = encoder({"host"}, vhost=True)(b"example.org:80 " + USUAL)
    assert encoded
    assert encoded[1] == "example.org"
    assert bson.decode(encoded[2])["host"] == "203.0.113.7"


@given(lines(), FIELDS)
@example(USUAL, None)
@example(USUAL.replace(b" 12 ", b" - "), None)
@example(USUAL.replace(b"203.0.113.7", b"-"), None)
@example(USUAL.replace(b"203.0.113.7", b"unknown"), None)
def test_any_line_gives_the_same_bytes_or_none(line: bytes, fields: set[str] | None) -> None:
    encode = encoder(fields)
    for _ in range(2):  # the second time from what was kept
        encoded = encode(line)
        if encoded is None:
            continue
        try:
            assert encoded == encode_generally(line, fields)
        except Malformed:
            pytest.fail(f"{line!r} is not an event")


def test_a_common_line_takes_the_fast_path() -> None:
    assert encoder({"host"})(USUAL) == encode_generally(USUAL, {"host"})


def test_the_cache_is_bounded() -> None:
    seen = _Cache(lambda value: value + b"!")
    for number in range(10_000):
        assert seen[b"%d" % number] == b"%d!" % number
    assert seen[b"x" * 5_000] == b"x" * 5_000 + b"!"
    assert 0 < len(seen) <= 4_096
    assert max(map(len, seen)) <= _MAX_CACHED_LENGTH
