"""The parser for the W3C extended format of IIS and CloudFront, whose `#Fields:` line names the fields after it."""

from __future__ import annotations

import re
from urllib.parse import unquote

from squinney.analytics.parsers.json_lines import as_time
from squinney.analytics.parsers.values import MONTHS, Malformed, event_of
from squinney.mongo.schema import Document

FIELDS = "#Fields:"
_DIRECTIVE = re.compile(r"^#(?:Fields|Date):.*", re.MULTILINE)
_DATE = re.compile(r"#Date:\s*(?:(\d{4})-(\d\d)-(\d\d)|(\d{1,2})-([A-Z][a-z]{2})-(\d{4}))\b")
# Our field names with the W3C names; the first one that the log has is used.
_W3C_NAMES = {
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
    "seconds": ("time-taken",),
    "country": ("c-country", "cs(cf-ipcountry)", "cs(cloudfront-viewer-country)"),
}


class W3C:
    """A parser that uses the last `#Fields:` line it has read; directive lines are not events.

    Lines with a time but no date get the date of the last `#Date:` line.
    """

    def __init__(self, header: str = "") -> None:
        self._fields: list[str] = []
        self._day = ""
        self.read_directives(header)

    def read_directives(self, lines: str) -> None:
        """Use the directives among these lines from now on."""
        for line in _DIRECTIVE.findall(lines):
            self(line)

    @property
    def header(self) -> str:
        """The directives that another parser needs to continue here; empty if no `#Fields:` line was read."""
        day = f"\n#Date: {self._day}" if self._day and "date" not in self._fields else ""
        return f"{FIELDS} {' '.join(self._fields)}{day}" if self._fields else ""

    def __call__(self, line: str) -> Document | None:
        """Parse one line; return None for a directive."""
        line = line.rstrip("\r\n")
        if line.startswith("#"):
            # guard: the fields of a W3C log may change within the log
            if line.startswith(FIELDS):
                self._fields = line.removeprefix(FIELDS).lower().split()
            self._day = _day(line) or self._day
            return None
        if not self._fields:
            raise Malformed(f"not the w3c format: there is no {FIELDS} line before it")
        tabs = "\t" in line
        values = line.split("\t") if tabs else line.split()
        if len(values) != len(self._fields):
            raise Malformed(f"it has {len(values)} fields, but its {FIELDS} line has {len(self._fields)}")
        present = {name: value for name, value in zip(self._fields, values, strict=True) if value not in ("-", "")}
        # guard: the date of a W3C log may be only in its header
        return _event({"date": self._day, **present}, tabs)


def _day(line: str) -> str:
    """Return the date of a `#Date:` line as 2002-05-02; some servers write it as 12-Jan-1996."""
    match = _DATE.match(line)
    if match is None:
        return ""
    year, month, day, own_day, name, own_year = match.groups()
    return f"{year}-{month}-{day}" if year else f"{own_year}-{MONTHS.get(name, 0):02}-{int(own_day):02}"


def _event(present: dict[str, str], tabs: bool) -> Document:
    if not present["date"] or "time" not in present:
        raise Malformed("it has no date or no time")
    values = {}
    for name, w3c_names in _W3C_NAMES.items():
        if value := next((present[w3c_name] for w3c_name in w3c_names if w3c_name in present), None):
            values[name] = value
    if "seconds" in values and "." not in values["seconds"]:  # CloudFront writes seconds, IIS milliseconds
        values["took_milliseconds"] = values.pop("seconds")
    for name in values.keys() & {"referer", "user_agent"}:  # CloudFront writes a space as %20, IIS as +
        # guard: IIS writes a space as a plus
        values[name] = unquote(values[name]) if tabs else values[name].replace("+", " ")
    return event_of(as_time(f"{present['date']}T{present['time']}+00:00"), values)
