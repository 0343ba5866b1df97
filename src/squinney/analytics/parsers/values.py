"""Functions shared by all parsers: times, numbers, and the parts of a request line. They raise `Malformed`."""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from squinney.analytics.calendar import EARLIEST, LATEST
from squinney.mongo.schema import Document


class Malformed(Exception):
    """The line cannot be parsed as an event; the message is the reason."""


MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
_CLF_TIME = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_REQUEST = re.compile(r"([A-Za-z][A-Za-z_-]{0,30}) (\S+(?:\s.*?)??)(?: (HTTP/\d(?:\.\d)?))?")
MAX_COUNT = 2**63 - 1
MAX_SECONDS = 86_400 * 7
# The names of a request's time, by how many of the unit are a second.
DURATIONS = {
    1: ("seconds", "seconds_in", "seconds_within", "seconds_out"),
    1_000: ("took_milliseconds",),
    1_000_000: ("took_microseconds",),
    1_000_000_000: ("took_nanoseconds",),
}
_DECIMAL = re.compile(r"\d{1,15}(\.\d{1,12})?")
_COUNTRY = re.compile(r"[A-Za-z][A-Za-z0-9]")
ABSENT_VISITORS = ("", "-", "unknown")  # proxies write `unknown` for a visitor whose address they keep to themselves


@lru_cache(maxsize=5_000)  # adjacent lines often have the same second
def clf_time(text: str) -> datetime:
    """Parse `17/May/2015:10:05:03 +0000`, and return it in UTC."""
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
    """Return the time in UTC.

    Raises: `Malformed` for a year that is not supported.
    """
    if not EARLIEST <= at < LATEST:
        raise Malformed(f"the time must be from the year {EARLIEST:%Y} to before {LATEST:%Y}")
    return at.astimezone(UTC)


def site_of(text: str) -> str:
    """Return the name of a virtual host without its port."""
    name, colon, port = text.rpartition(":")
    return name if colon and port.isdigit() else text


def is_address(value: Any) -> bool:
    """Return whether a value is an IP address, or a list of forwarded ones."""
    try:
        ip_address(first_address(value) if isinstance(value, str) else "")
    except ValueError:
        return False
    return True


def vhost_of(text: str) -> str:
    """Return the name of the virtual host that a line begins with, without its port.

    Raises: `Malformed` for an address without a port: of two addresses, either one may be the visitor's.
    """
    # guard: an address before another one is no virtual host
    if is_address(text):
        raise Malformed("it begins with two addresses: give a format string that says which is the visitor's")
    return site_of(text)


def as_count(value: Any, field: str) -> int:
    """Return a whole number of zero or more, given as a number or as digits."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value) < 20 else -1
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        raise Malformed(f"{field} is not a whole number, or is too large")
    return value


def as_text(value: Any, field: str) -> str:
    """Return a text. Other values were not understood: they are not turned into text, except the number of a user."""
    if isinstance(value, str):
        return value
    if field == "user" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    # guard: a value that is not text is not turned into text
    raise Malformed(f"{field} is not text")


def _seconds_in(values: Mapping[str, Any]) -> float | None:
    """Return how long the request took; a load balancer logs three parts of it, or -1 where it got no answer."""
    for unit, names in DURATIONS.items():
        if given := [values[name] for name in names if name in values]:
            parts = [as_seconds(value, unit) for value in given]
            return None if None in parts else round(sum(part for part in parts if part is not None), 6)
    return None


def as_seconds(value: Any, unit: float) -> float | None:
    """Return a span in seconds; None if it is no number or not known."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # guard: a time that a request cannot have taken is left out
    return value / unit if 0 <= value / unit <= MAX_SECONDS else None


def as_country(value: Any) -> str:
    """Return the code of a country in capitals; empty if it is not one, or unknown (`XX`, as Cloudflare writes it)."""
    # guard: only the code of a country is stored as one
    code = value.upper() if isinstance(value, str) and _COUNTRY.fullmatch(value) else ""
    return "" if code == "XX" else code


def first_address(text: str) -> str:
    """Return the visitor of `203.0.113.7, 10.0.0.1`, where each proxy has appended the address that it saw."""
    return text.partition(",")[0].strip()


def event_of(at: datetime, values: Mapping[str, Any], *, absolute: bool = False) -> Document:
    """Build an event from a line's values by our field names.

    A `path` may include its query. Without a `path`, method, path and query are taken from the `request` line.
    """
    event: Document = {"time": at}
    if "site" in values:
        event["site"] = site_of(as_text(values["site"], "site"))
    # guard: the visitor is the first of the forwarded addresses
    if "host" in values and (host := first_address(as_text(values["host"], "host"))) not in ABSENT_VISITORS:
        event["host"] = host
    for name in ("user", "method"):
        if name in values:
            event[name] = as_text(values[name], name)
    if "path" in values:
        put_target(event, as_text(values["path"], "path"))
    elif "request" in values:
        put_request(event, as_text(values["request"], "request"), absolute=absolute)
    if "query" in values:
        event["query"] = as_text(values["query"], "query")
    if "protocol" in values:
        event.setdefault("protocol", as_text(values["protocol"], "protocol"))
    for name in ("status", "bytes"):
        if name in values:
            event[name] = as_count(values[name], name)
    for name in ("referer", "user_agent"):
        if name in values:
            event[name] = as_text(values[name], name)
    if (seconds := _seconds_in(values)) is not None:
        event["seconds"] = seconds
    if country := as_country(values.get("country")):
        event["country"] = country
    return event


def put_request(event: Document, request: str, *, absolute: bool = False) -> None:
    """Set method, path, query and protocol from a request line, or `request` if the line is malformed.

    With `absolute`, the target may be a whole URL, as load balancers log it; its host becomes the site.
    """
    match = _REQUEST.fullmatch(request)
    if not match:
        event["request"] = request
        return
    method, target, protocol = match.groups()
    event["method"] = method
    scheme, separator, rest = target.partition("://")
    if absolute and separator and scheme in ("http", "https", "ws", "wss"):
        site, slash, path = rest.partition("/")
        # guard: the site of a load balancer's line is taken from its request
        event.setdefault("site", site_of(site))
        target = slash + path or "/"
    put_target(event, target)
    if protocol:
        event["protocol"] = protocol


def put_target(event: Document, target: str) -> None:
    """Set the path, and the query after the first question mark."""
    path, mark, query = target.partition("?")
    event["path"] = path
    if mark:
        event["query"] = query
