"""What all parsers share: the error, times, and the request's first line taken apart."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

from squinney.analytics.calendar import EARLIEST, LATEST
from squinney.mongo.schema import Document

Parse = Callable[[str], Document]


class Malformed(Exception):
    """The line is no event; the message says why."""


MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
_CLF_TIME = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_REQUEST = re.compile(r"([A-Za-z][A-Za-z_-]{0,30}) (\S.*?)(?: (HTTP/\d(?:\.\d)?))?")
_TIMES_KEPT = 5_000
_times: dict[str, datetime] = {}


def clf_time(text: str) -> datetime:
    """`17/May/2015:10:05:03 +0000` in UTC. Neighbouring lines share their second, so the last ones are kept."""
    found = _times.get(text)
    if found is None:
        if len(_times) >= _TIMES_KEPT:
            _times.clear()
        found = _times[text] = _clf_time(text)
    return found


def _clf_time(text: str) -> datetime:
    match = _CLF_TIME.fullmatch(text)
    if not match:
        raise Malformed("the time is not like 17/May/2015:10:05:03 +0000")
    day, month, year, hour, minute, second, sign, zone_hours, zone_minutes = match.groups()
    offset = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        at = datetime(int(year), MONTHS[month], int(day), int(hour), int(minute), min(int(second), 59), tzinfo=zone)
        return in_calendar(at)
    except (ValueError, KeyError):
        raise Malformed("there is no such time") from None


def in_calendar(at: datetime) -> datetime:
    """The time in UTC.

    Raises: `Malformed` for a year in which no event can be.
    """
    if not EARLIEST <= at < LATEST:
        raise Malformed("there is no such time")
    return at.astimezone(UTC)


def checked_user(text: str) -> str:
    """A user's name, which may hold spaces.

    Raises: `Malformed` where it holds a field that is empty: then it is more than a name.
    """
    if "-" in text.split(" "):
        raise Malformed("it has too many fields before its time: two lines in one, or a virtual host before them?")
    return text


def site_of(text: str) -> str:
    """The name of a virtual host, without its port."""
    name, colon, port = text.rpartition(":")
    return name if colon and port.isdigit() else text


def put_request(event: Document, request: str, *, absolute: bool = False) -> None:
    """Method, path, query and protocol of a request line; the line itself as `request` where it is none.

    With `absolute`, a target with a scheme and a host is the site and its path: load balancers log it so.
    """
    match = _REQUEST.fullmatch(request)
    if not match:
        event["request"] = request
        return
    method, target, protocol = match.groups()
    event["method"] = method
    scheme, found, rest = target.partition("://")
    if absolute and found and scheme in ("http", "https", "ws", "wss"):
        site, slash, path = rest.partition("/")
        event.setdefault("site", site_of(site))
        target = slash + path or "/"
    put_target(event, target)
    if protocol:
        event["protocol"] = protocol


def put_target(event: Document, target: str) -> None:
    """The path, and the query behind the first question mark."""
    path, mark, query = target.partition("?")
    event["path"] = path
    if mark:
        event["query"] = query
