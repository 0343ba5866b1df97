"""Parsers made from a format string, nginx's `log_format` or Apache's `LogFormat`, and the named formats."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import zip_longest

from squinney.analytics.calendar import EPOCH
from squinney.analytics.parsers.json_lines import as_time
from squinney.analytics.parsers.values import Malformed, clf_time, event_of, in_calendar, vhost_of
from squinney.errors import Invalid
from squinney.mongo.schema import Document

# Our field names with the variables of nginx and Apache; other variables are ignored.
_VARIABLES = {
    "host": ("remote_addr", "%h", "%a"),
    "user": ("remote_user", "%u"),
    "clf": ("time_local", "%t"),
    "iso": ("time_iso8601",),
    "since_1970": ("msec", "%{sec}t"),
    "milliseconds_since_1970": ("%{msec}t",),
    "microseconds_since_1970": ("%{usec}t",),
    "seconds": ("request_time", "%T", "%{s}T"),
    "seconds_in": ("request_processing_time",),
    "seconds_within": ("target_processing_time",),
    "seconds_out": ("response_processing_time",),
    "took_milliseconds": ("total_milliseconds", "%{ms}T"),
    "took_microseconds": ("%D", "%{us}T"),
    "country": (
        "http_cf_ipcountry",
        "http_cloudfront_viewer_country",
        "geoip_country_code",
        "geoip2_data_country_code",
        "%{cf-ipcountry}i",
        "%{cloudfront-viewer-country}i",
        "%{geoip_country_code}e",
    ),
    "request": ("request", "%r"),
    "method": ("request_method", "%m"),
    "path": ("request_uri", "uri", "document_uri", "%U"),
    "query": ("args", "query_string", "%q"),
    "protocol": ("server_protocol", "%H"),
    "status": ("status", "%s"),
    "bytes": ("body_bytes_sent", "bytes_sent", "%b", "%B", "%O"),
    "referer": ("http_referer", "%{referer}i"),
    "user_agent": ("http_user_agent", "%{user-agent}i"),
    "site": ("host", "http_host", "server_name", "%{host}i", "%v", "%V"),
}
_NAMES = {variable: name for name, variables in _VARIABLES.items() for variable in variables}
_NGINX_PART = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_APACHE_PART = re.compile(r"%[<>]?(?:!?\d{3}(?:,\d{3})*)?[<>]?(?:\{([^}]*)\})?(\^t[io]|[a-zA-Z%])")
# Apache writes a quote within a field as \". The pattern is unrolled, so that no line can make matching slow. For the
# same reason a time may not contain "[": otherwise each of many brackets would be tried up to the end of the line.
_QUOTED = r'[^"\\]*(?:\\.[^"\\]*)*'
# More fields may follow those of the format, but not a second line, which would contain a time in brackets.
# guard: two lines glued together are rejected
TRAILING = rf'(?: (?:"{_QUOTED}"|[^\s"\[\]]+))*\s*'
# A list of forwarded addresses contains commas, and no virtual host does.
_ADDRESSES = r'[^\s",]+(?:, ?[^\s",]+)*'
_SITE = r'[^\s",]+'
_PATTERNS = {"status": r"\d{3}|-", "bytes": r"\d+|-", "user": r'\S+?|[^"\[\]]+?'}
_TIMES: dict[str, Callable[[str], datetime]] = {
    "clf": clf_time,
    "iso": as_time,
    "since_1970": lambda text: _since_1970(text, 1),
    "milliseconds_since_1970": lambda text: _since_1970(text, 1_000),
    "microseconds_since_1970": lambda text: _since_1970(text, 1_000_000),
}


class Layout:
    """A parser for the lines of a format string.

    With `absolute`, the lines contain the whole URL of a request, from which the site is taken.
    """

    def __init__(self, text: str, *, name: str = "", absolute: bool = False) -> None:
        self._name = name or "given"
        self._absolute = absolute
        self._fields, self._line, self._start = _compiled(text.replace('\\"', '"').replace("\\t", "\t"))
        self._times = [name for name in self._fields if name in _TIMES]
        if not self._times:
            raise Invalid("format must contain the time: $time_local, $time_iso8601, $msec or %t", field="format")

    def __call__(self, line: str) -> Document:
        """Parse one line."""
        match = self._line.fullmatch(line)
        if match is None:
            raise Malformed(f"not the {self._name} format{self._why_not(line)}")
        values = {
            name: value for name, value in zip(self._fields, match.groups(), strict=True) if value not in ("-", "")
        }
        kind = next((name for name in self._times if name in values), None)
        if kind is None:
            raise Malformed("it has no time")
        # guard: a user name contains no empty field
        if "-" in values.get("user", "").split(" "):  # a user name may contain spaces, but not an empty field
            raise Malformed("it has too many fields before its time: two lines in one, or a leading virtual host?")
        if "site" in values and self._name.startswith("vhost_"):
            values["site"] = vhost_of(values["site"])
        if "query" in values:
            values["query"] = values["query"].removeprefix("?")
        if "request" in values:  # it contains more than the path, unless it consists of dashes
            values.pop("path" if values["request"].strip(" -") else "request", None)
        return event_of(_TIMES[kind](values[kind]), values, absolute=self._absolute)

    def _why_not(self, line: str) -> str:
        if not self._start.match(line):
            before = self._fields[: self._start.groups - 1]
            return f": it does not begin with {', '.join([*before, 'time'])}"
        return ": a quotation mark is missing (a cut line?)" if line.count('"') % 2 else ""


def is_layout(format: str) -> bool:
    """Return True for a format string, False for the name of a format."""
    return "$" in format or "%" in format


def _compiled(text: str) -> tuple[list[str], re.Pattern[str], re.Pattern[str]]:
    """Return the fields of a format, the pattern of its lines, and the pattern of a line up to the time."""
    if "$" in text:
        variable, name_of = _NGINX_PART, _nginx_name
    else:  # Apache adds the brackets around the time itself
        variable, name_of, text = _APACHE_PART, _apache_name, re.sub("(?<!%)%t", "[%t]", text)
    matches = list(variable.finditer(text))
    fields: list[str] = []
    pattern = start = ""
    end = 0
    for match, following in zip_longest(matches, matches[1:]):
        before, after = text[end : match.start()], text[match.end() : following.start() if following else None]
        if following and not after:
            raise Invalid(f"format has no separator between {match[0]} and {following[0]}", field="format")
        name = name_of(match)
        ignored = not name or name in fields
        pattern += f"{re.escape(before)}({'?:' if ignored else ''}{_pattern(name, before[-1:], after[:1])})"
        if not ignored:
            fields.append(name)
        if name in _TIMES and not start:
            start = pattern
        end = match.end()
    # guard: a line may have more fields than its format
    return fields, re.compile(pattern + re.escape(text[end:]) + TRAILING), re.compile(start)


def _pattern(name: str, before: str, after: str) -> str:
    if (before, after) == ('"', '"'):
        return _QUOTED
    if (before, after) == ("[", "]"):
        return r"[^\[\]]+"
    if name in _PATTERNS:
        return _PATTERNS[name]
    if after == " ":
        # guard: a list of forwarded addresses is no virtual host
        return {"host": _ADDRESSES, "site": _SITE}.get(name, r'[^\s"]+')
    if after in ("", ":"):  # an IPv6 address before a port contains colons
        return r'[^\s"\[\]]+'
    return rf"[^{re.escape(after)}]*"


def _nginx_name(match: re.Match[str]) -> str:
    """Return our name for a variable, or an empty string to ignore it."""
    return _NAMES.get(match[1] or match[2], "")


def _apache_name(match: re.Match[str]) -> str:
    argument, letter = match[1], match[2]
    if letter == "%":
        raise Invalid("format must not contain %%, which is not supported", field="format")
    known = f"%{{{argument.lower()}}}{letter}" if argument is not None and letter in "iteT" else f"%{letter}"
    if letter == "t" and known not in _NAMES:
        message = f"format: the time %{{{argument}}}t is not supported; use %t, %{{sec}}t or %{{msec}}t"
        raise Invalid(message, field="format")
    return _NAMES.get(known, "")


def _since_1970(text: str, unit: int) -> datetime:
    try:
        return in_calendar(EPOCH + timedelta(seconds=float(text) / unit))
    except (ValueError, OverflowError):
        raise Malformed("there is no such time") from None


_COMMON = '%h %l %u %t "%r" %>s %b'
_COMBINED = f'{_COMMON} "%{{Referer}}i" "%{{User-Agent}}i"'
# Fields that only newer logs have are matched by `TRAILING`.
_ELB = (
    "$time_iso8601 $elb $remote_addr:$client_port $target $request_processing_time"
    " $target_processing_time $response_processing_time $status $target_status $received"
    ' $body_bytes_sent "$request"'
)
_S3 = (
    "$owner $server_name [$time_local] $remote_addr $remote_user $request_id $operation $key"
    ' "$request" $status $error $body_bytes_sent $size $total_milliseconds $turn "$http_referer" "$http_user_agent"'
)
# guard, 3 lines: a line may begin with its virtual host
LAYOUTS = {
    "combined": Layout(_COMBINED, name="combined"),
    "vhost_combined": Layout(f"%v {_COMBINED}", name="vhost_combined"),  # Debian's other_vhosts_access.log
    "common": Layout(_COMMON, name="common"),
    "vhost_common": Layout(f"%v {_COMMON}", name="vhost_common"),
    "s3": Layout(_S3, name="s3"),
    "alb": Layout(f'$type {_ELB} "$http_user_agent"', name="alb", absolute=True),
}
ELB = Layout(_ELB, name="elb", absolute=True)
ELB_WITH_AGENT = Layout(f'{_ELB} "$http_user_agent"', name="elb", absolute=True)


def parse_elb(line: str) -> Document:
    """Parse a line of a classic load balancer; only newer ones contain the user agent."""
    try:
        return ELB_WITH_AGENT(line)
    except Malformed:
        return ELB(line)
