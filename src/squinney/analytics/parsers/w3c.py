"""The W3C's extended format, of IIS and CloudFront: a `#Fields:` line says what is in the lines behind it."""

from __future__ import annotations

import re
from urllib.parse import unquote

from squinney.analytics.parsers.fields import as_time
from squinney.analytics.parsers.lines import MONTHS, Malformed, event_of
from squinney.mongo.schema import Document

FIELDS = "#Fields:"
_DIRECTIVE = re.compile(r"^#(?:Fields|Date):.*", re.MULTILINE)
_DATE = re.compile(r"#Date:\s*(?:(\d{4})-(\d\d)-(\d\d)|(\d{1,2})-([A-Z][a-z]{2})-(\d{4}))\b")
# Ours, and where it is: the first of these that the log has.
_PLACES = {
    "host": ("c-ip",),
    "user": ("cs-username",),
    "method": ("cs-method",),
    "protocol": ("cs-version", "cs-protocol-version"),
    "referer": ("cs(referer)",),
    "user_agent": ("cs(user-agent)",),
    "site": ("x-host-header", "cs(host)", "cs-host", "s-sitename"),
    "path": ("cs-uri-stem", "cs-uri"),
    "query": ("cs-uri-query",),
    "status": ("sc-status",),
    "bytes": ("sc-bytes",),
}


class W3C:
    """A parser that goes by the last `#Fields:` line it has read; directives themselves are no events.

    Lines that have a time and no date are of the day of the last `#Date:` line.
    """

    def __init__(self, header: str = "") -> None:
        self._fields: list[str] = []
        self._day = ""
        self.read_directives(header)

    def read_directives(self, lines: str) -> None:
        """Go by what these say from here on."""
        for line in _DIRECTIVE.findall(lines):
            self(line)

    @property
    def header(self) -> str:
        """What a parser has to know that reads on from here; empty where no `#Fields:` line was read."""
        day = f"\n#Date: {self._day}" if self._day and "date" not in self._fields else ""
        return f"{FIELDS} {' '.join(self._fields)}{day}" if self._fields else ""

    def __call__(self, line: str) -> Document | None:
        """The event of one line; None for a directive.

        Raises: `Malformed`.
        """
        line = line.rstrip("\r\n")
        if line.startswith("#"):
            if line.startswith(FIELDS):
                self._fields = line.removeprefix(FIELDS).lower().split()
            self._day = _day(line) or self._day
            return None
        if not self._fields:
            raise Malformed(f"not the w3c format: no {FIELDS} line comes before it")
        tabs = "\t" in line
        values = line.split("\t") if tabs else line.split()
        if len(values) != len(self._fields):
            raise Malformed(f"it has {len(values)} fields, and its {FIELDS} line {len(self._fields)}")
        found = {name: value for name, value in zip(self._fields, values, strict=True) if value not in ("-", "")}
        return _event({"date": self._day, **found}, tabs)


def _day(line: str) -> str:
    """The day of a `#Date:` line as 2002-05-02; some write it as 12-Jan-1996."""
    match = _DATE.match(line)
    if match is None:
        return ""
    year, month, day, own_day, name, own_year = match.groups()
    return f"{year}-{month}-{day}" if year else f"{own_year}-{MONTHS.get(name, 0):02}-{int(own_day):02}"


def _event(found: dict[str, str], tabs: bool) -> Document:
    if not found["date"] or "time" not in found:
        raise Malformed("it has no date or no time")
    ours = {}
    for name, theirs in _PLACES.items():
        if value := next((found[one] for one in theirs if one in found), None):
            ours[name] = value
    for name in ours.keys() & {"referer", "user_agent"}:  # CloudFront writes a space as %20, IIS as +
        ours[name] = unquote(ours[name]) if tabs else ours[name].replace("+", " ")
    return event_of(as_time(f"{found['date']}T{found['time']}+00:00"), ours)
