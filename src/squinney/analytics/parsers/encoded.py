"""The fast path of imports: encodes lines of the combined format directly as BSON, without a string or a dict.

The result is byte for byte the same as that of the general path (parse the text, encode the dict without its site);
a test compares both. Lines other than common ones in ASCII are left to the general path.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

from squinney.analytics.parsers.values import ABSENT_VISITORS, Malformed, clf_time, vhost_of

# A line is split at its first three quotation marks. A piece is matched at its first occurrence and then found in a
# cache, which is faster. The patterns are stricter than the general ones: printable ASCII only, no escapes, and no
# comma in a site or host, where it separates forwarded addresses.
_VISITOR = re.compile(rb"([!-+\--~]+) [!-~]+ ([!-~]+)")  # `203.0.113.7 - ann`
_SITE_AND_VISITOR = re.compile(
    rb"(?!- )([!-+\--~]+) ([!-+\--~]+) [!-~]+ ([!-~]+)"
)  # `example.org:80 203.0.113.7 - ann`
_MINUTE = re.compile(rb" \[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d): ([+-]\d{4})\] ")
_REQUEST = re.compile(rb"([A-Z]{3,10}) ([!#->@-\[\]-~]+)(?:\?([!#-\[\]-~]*))? (HTTP/\d\.\d)")  # `GET /a?b=c HTTP/1.1`
_STATUS_AND_SIZE = re.compile(rb" (\d{3}) (\d{1,18}|-) ")  # ` 200 1234 `
_REFERER_AND_AGENT = re.compile(rb'([ !#-\[\]-~]*)" "([ !#-\[\]-~]*)"')  # `http://example.org/" "Mozilla/5.0"`
_TIME_LENGTH = len(" [17/May/2015:10:05:03 +0000] ")
_CACHE_SIZE = 4_096
_MAX_CACHED_LENGTH = 512
_ABSENT = (b"-", b"")
_LONGEST = 65_536
_INT32_END = 1 << 31
_int32 = struct.Struct("<i").pack
_int64 = struct.Struct("<q").pack
_LENGTHS = [_int32(length + 1) for length in range(_LONGEST + 1)]
_SECONDS = {b"%02d" % second: second * 1000 for second in range(60)}

V = TypeVar("V")
Fields = Collection[str] | None
Make = Callable[[Any], bytes]
Encoded = tuple[int, str, bytes]  # the time in milliseconds since 1970, the site if the line has one, and the event
Encode = Callable[[bytes], Encoded | None]


def encoder(fields: Fields = None, *, vhost: bool = False) -> Encode:
    """Return a function that encodes a line as an event, or returns None if it cannot.

    The function is a closure for speed, since this is the innermost loop of an import. `fields` limits the stored
    fields. With `vhost`, the site is the first word of the line.
    """
    text, number = partial(_text, fields), partial(_number, fields)
    minutes = _Cache(_minute)
    visitor = text(b"host", absent=[word.encode() for word in ABSENT_VISITORS]), text(b"user", absent=(b"-",))
    if vhost:
        visitors = _Cache(_with_site(*visitor))
    else:
        without_site = _elements(_VISITOR, *visitor)
        visitors = _Cache(lambda piece: ("", without_site(piece)))
    requests = _Cache(
        _elements(_REQUEST, text(b"method"), text(b"path"), text(b"query", absent=(None,)), text(b"protocol"))
    )
    sizes = _Cache(_elements(_STATUS_AND_SIZE, number(b"status"), number(b"bytes")))
    agents = _Cache(
        _elements(_REFERER_AND_AGENT, text(b"referer", absent=_ABSENT), text(b"user_agent", absent=_ABSENT))
    )
    join = b"".join

    def encode(line: bytes) -> Encoded | None:
        try:
            visitor_and_time, request, size, agent = line.split(b'"', 3)
            at = visitor_and_time[-_TIME_LENGTH:]
            moment = minutes[at[:20] + at[22:]] + _SECONDS[at[20:22]]
            site, who = visitors[visitor_and_time[:-_TIME_LENGTH]]
            body = join((b"\x09time\0", _int64(moment), who, requests[request], sizes[size], agents[agent], b"\0"))
        except (Malformed, ValueError, KeyError):  # no match, fewer than three quotation marks, or an invalid second
            return None
        return moment, site, _int32(len(body) + 4) + body

    return encode


class _Cache(dict[bytes, V]):
    """A cache of encoded pieces, because visitors, paths and user agents repeat. It is emptied when it is full."""

    def __init__(self, make: Callable[[bytes], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, value: bytes) -> V:
        element = self._make(value)
        if len(value) <= _MAX_CACHED_LENGTH:
            if len(self) >= _CACHE_SIZE:
                self.clear()
            self[value] = element
        return element


def _groups(pattern: re.Pattern[bytes], piece: bytes) -> tuple[Any, ...]:
    match = pattern.fullmatch(piece)
    if match is None:
        raise Malformed("the line needs the general parser")
    return match.groups()


def _minute(piece: bytes) -> int:
    """Return the milliseconds since 1970 of ` [17/May/2015:10:05: +0000] `.

    The caller adds the seconds: most full times occur only once, so caching them would not help.
    """
    minute, zone = _groups(_MINUTE, piece)
    at = clf_time(f"{minute.decode()}:00 {zone.decode()}")
    return int(at.timestamp()) * 1000


def _text(fields: Fields, name: bytes, *, absent: Collection[bytes | None] = ()) -> Make:
    if fields is not None and name.decode() not in fields:
        return lambda value: b""
    start = b"\x02" + name + b"\0"
    return lambda value: b"" if value in absent else start + _LENGTHS[len(value)] + value + b"\0"


def _with_site(host: Make, user: Make) -> Callable[[bytes], tuple[str, bytes]]:
    def make(piece: bytes) -> tuple[str, bytes]:
        site, *values = _groups(_SITE_AND_VISITOR, piece)
        return vhost_of(site.decode()), host(values[0]) + user(values[1])

    return make


def _number(fields: Fields, name: bytes) -> Make:
    if fields is not None and name.decode() not in fields:
        return lambda value: b""
    int32, int64 = b"\x10" + name + b"\0", b"\x12" + name + b"\0"

    def make(value: bytes) -> bytes:
        if value == b"-":
            return b""
        number = int(value)
        return int32 + _int32(number) if number < _INT32_END else int64 + _int64(number)

    return make


def _elements(pattern: re.Pattern[bytes], *makes: Make) -> Make:
    """Return a function that encodes a piece of a line: one BSON element for each group of the pattern."""

    def make_all(piece: bytes) -> bytes:
        return b"".join([make(value) for make, value in zip(makes, _groups(pattern, piece), strict=True)])

    return make_all
