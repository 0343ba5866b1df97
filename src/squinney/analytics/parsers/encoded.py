"""Lines of the combined format straight to BSON, without a text, a dict and an encoding of it in between.

It makes the very bytes that the careful way (parse, make ready, encode) would: a test compares them. What is not an
everyday line of ASCII is left to the careful way.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Collection
from typing import TypeVar

from squinney.analytics.parsers.lines import Malformed, clf_time

# Stricter than the careful way's pattern of a usual line: printable ASCII only, nothing escaped. What mostly comes
# together is one group, so that it is looked up once: who, what they asked for, the answer, and where they came from.
_LINE = re.compile(
    rb"([!-~]+ [!-~]+ [!-~]+) \[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:[0-5]\d [+-]\d{4})\] "
    rb'"([A-Z]{3,10} [!#->@-\[\]-~]+(?:\?[!#-\[\]-~]*)?) (HTTP/\d\.\d" \d{3}) (\d{1,18}|-) '
    rb'"([ !#-\[\]-~]*" "[ !#-\[\]-~]*)"'
)
_KEPT = 4_096
_LONGEST_KEPT = 512
_NOTHING = (b"-", b"")
_LONGEST = 65_536
_INT32_END = 1 << 31
_OFFSET_END = 1 << 48  # twelve hexadecimal digits
_int32 = struct.Struct("<i").pack
_int64 = struct.Struct("<q").pack
_LENGTHS = [_int32(length + 1) for length in range(_LONGEST + 1)]
_SECONDS = {b"%02d" % second: second * 1000 for second in range(60)}
_SERVER_FILLS_IT = b"\x11arrived\0" + bytes(8)

V = TypeVar("V")
Fields = Collection[str] | None
Make = Callable[[bytes], bytes]
Encode = Callable[[bytes, int], bytes | None]


def encoder(source: str, fields: Fields = None) -> Encode:
    """Makes an event of a line and the offset at which it begins; None where the line takes the careful way.

    It is a closure, since this is the innermost loop of an import. `fields` names what is kept, if not all.
    """
    start = f"{source}-".encode()
    begin = b"\x02_id\0" + _LENGTHS[len(start) + 12] + start
    begin_hash = zlib.crc32(start)
    minutes, visitors, requests = _Seen(_minute), _Seen(_visitor(fields)), _Seen(_request(fields))
    answers, sizes, origins = _Seen(_answer(fields)), _Seen(_number(b"bytes", fields)), _Seen(_origin(fields))
    match, crc32, join = _LINE.fullmatch, zlib.crc32, b"".join

    def encode(line: bytes, offset: int) -> bytes | None:
        found = match(line)
        if found is None or offset >= _OFFSET_END:
            return None
        visitor, at, request, answer, size, origin = found.groups()
        place = b"%012x" % offset
        ssk = crc32(place, begin_hash)
        try:
            milliseconds = minutes[at[:17] + at[20:]] + _SECONDS[at[18:20]]
        except Malformed:
            return None
        body = join(
            (
                begin,
                place,
                b"\0\x09time\0",
                _int64(milliseconds),
                visitors[visitor],
                requests[request],
                answers[answer],
                sizes[size],
                origins[origin],
                _SERVER_FILLS_IT,
                b"\x10ssk\0" + _int32(ssk) if ssk < _INT32_END else b"\x12ssk\0" + _int64(ssk),
                b"\0",
            )
        )
        return _int32(len(body) + 4) + body

    return encode


class _Seen(dict[bytes, V]):
    """Elements made before: visitors, paths and browsers come again and again. Where it is full it begins anew."""

    def __init__(self, make: Callable[[bytes], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, value: bytes) -> V:
        element = self._make(value)
        if len(value) <= _LONGEST_KEPT:
            if len(self) >= _KEPT:
                self.clear()
            self[value] = element
        return element


def _minute(text: bytes) -> int:
    """The milliseconds since 1970 of `17/May/2015:10:05 +0000`; seconds are added, since most come but once."""
    at = clf_time(f"{text[:17].decode()}:00{text[17:].decode()}")
    return int(at.timestamp()) * 1000


def _text(name: bytes, fields: Fields, *, absent: Collection[bytes] = ()) -> Make:
    if fields is not None and name.decode() not in fields:
        return lambda value: b""
    start = b"\x02" + name + b"\0"
    return lambda value: b"" if value in absent else start + _LENGTHS[len(value)] + value + b"\0"


def _number(name: bytes, fields: Fields) -> Make:
    if fields is not None and name.decode() not in fields:
        return lambda value: b""
    int32, int64 = b"\x10" + name + b"\0", b"\x12" + name + b"\0"

    def make(value: bytes) -> bytes:
        if value == b"-":
            return b""
        number = int(value)
        return int32 + _int32(number) if number < _INT32_END else int64 + _int64(number)

    return make


def _visitor(fields: Fields) -> Make:
    """Host and user, of `203.0.113.7 - ann`."""
    host, user = _text(b"host", fields), _text(b"user", fields, absent=(b"-",))

    def make(value: bytes) -> bytes:
        parts = value.split(b" ")
        return host(parts[0]) + user(parts[2])

    return make


def _request(fields: Fields) -> Make:
    """Method, path and query, of `GET /path?query`."""
    method, path, query = _text(b"method", fields), _text(b"path", fields), _text(b"query", fields)

    def make(value: bytes) -> bytes:
        name, _, target = value.partition(b" ")
        where, mark, rest = target.partition(b"?")
        return method(name) + path(where) + (query(rest) if mark else b"")

    return make


def _answer(fields: Fields) -> Make:
    """Protocol and status, of `HTTP/1.1" 200`."""
    protocol, status = _text(b"protocol", fields), _number(b"status", fields)
    return lambda value: protocol(value[:8]) + status(value[10:])


def _origin(fields: Fields) -> Make:
    """Referer and user agent, of `http://example.org/" "Mozilla/5.0`."""
    referer = _text(b"referer", fields, absent=_NOTHING)
    agent = _text(b"user_agent", fields, absent=_NOTHING)

    def make(value: bytes) -> bytes:
        came, _, browser = value.partition(b'" "')
        return referer(came) + agent(browser)

    return make
