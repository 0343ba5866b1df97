"""The W3C's extended format, of IIS and CloudFront: a `#Fields:` line says what is in the lines behind it."""

from __future__ import annotations

from urllib.parse import unquote

from squinney.analytics.parsers.fields import as_count, as_time
from squinney.analytics.parsers.lines import Malformed, put_target, site_of
from squinney.mongo.schema import Document

FIELDS = "#Fields:"
# Ours, and where it is: the first of these that the log has.
_PLACES = {
    "host": ("c-ip",),
    "user": ("cs-username",),
    "method": ("cs-method",),
    "protocol": ("cs-version", "cs-protocol-version"),
    "referer": ("cs(referer)",),
    "user_agent": ("cs(user-agent)",),
    "site": ("x-host-header", "cs(host)", "cs-host", "s-sitename"),
}


class W3C:
    """A parser that goes by the last `#Fields:` line it has read; directives themselves are no events."""

    def __init__(self, format: str = "") -> None:
        self._fields = _fields(format) if format.startswith(FIELDS) else []

    def __call__(self, line: str) -> Document | None:
        """The event of one line; None for a directive.

        Raises: `Malformed`.
        """
        line = line.rstrip("\r\n")
        if line.startswith("#"):
            if line.startswith(FIELDS):
                self._fields = _fields(line)
            return None
        if not self._fields:
            raise Malformed(f"not the w3c format: no {FIELDS} line comes before it")
        tabs = "\t" in line
        values = line.split("\t") if tabs else line.split()
        if len(values) != len(self._fields):
            raise Malformed(f"it has {len(values)} fields, and its {FIELDS} line {len(self._fields)}")
        found = {name: value for name, value in zip(self._fields, values, strict=True) if value not in ("-", "")}
        return _event(found, tabs)


def _fields(line: str) -> list[str]:
    return line.removeprefix(FIELDS).lower().split()


def _event(found: dict[str, str], tabs: bool) -> Document:
    if "date" not in found or "time" not in found:
        raise Malformed("it has no date or no time")
    event: Document = {"time": as_time(f"{found['date']}T{found['time']}+00:00")}
    for ours, partitions in _PLACES.items():
        if value := next((found[partition] for partition in partitions if partition in found), None):
            event[ours] = site_of(value) if ours == "site" else value
    for ours in ("referer", "user_agent"):
        if ours in event:  # CloudFront writes a space as %20, IIS as +
            event[ours] = unquote(event[ours]) if tabs else event[ours].replace("+", " ")
    if "cs-uri-stem" in found or "cs-uri" in found:
        put_target(event, found.get("cs-uri-stem") or found["cs-uri"])
    if "cs-uri-query" in found:
        event["query"] = found["cs-uri-query"]
    for ours, theirs in (("status", "sc-status"), ("bytes", "sc-bytes")):
        if theirs in found:
            event[ours] = as_count(found[theirs], ours)
    return event
