"""Formats told by a string: nginx's `log_format`, Apache's `LogFormat`, and in their words those that have a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import zip_longest

from squinney.analytics.calendar import EPOCH
from squinney.analytics.parsers.fields import as_time
from squinney.analytics.parsers.lines import Malformed, clf_time, event_of, in_calendar
from squinney.errors import Invalid
from squinney.mongo.schema import Document

# What their variables are called here; others are passed over.
NGINX = {
    "remote_addr": "host",
    "remote_user": "user",
    "time_local": "clf",
    "time_iso8601": "iso",
    "msec": "seconds",
    "request": "request",
    "request_method": "method",
    "request_uri": "path",
    "uri": "path",
    "document_uri": "path",
    "args": "query",
    "query_string": "query",
    "server_protocol": "protocol",
    "status": "status",
    "body_bytes_sent": "bytes",
    "bytes_sent": "bytes",
    "http_referer": "referer",
    "http_user_agent": "user_agent",
    "host": "site",
    "http_host": "site",
    "server_name": "site",
}
APACHE = {
    "h": "host",
    "a": "host",
    "u": "user",
    "t": "clf",
    "sec}t": "seconds",
    "msec}t": "milliseconds",
    "usec}t": "microseconds",
    "r": "request",
    "m": "method",
    "U": "path",
    "q": "query",
    "H": "protocol",
    "s": "status",
    "b": "bytes",
    "B": "bytes",
    "O": "bytes",
    "referer}i": "referer",
    "user-agent}i": "user_agent",
    "host}i": "site",
    "v": "site",
    "V": "site",
}
_NGINX_PART = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_APACHE_PART = re.compile(r"%[<>]?(?:!?\d{3}(?:,\d{3})*)?[<>]?(?:\{([^}]*)\})?(\^t[io]|[a-zA-Z%])")
# Apache writes a quote inside a field as \" (unrolled, so that no line can make the match slow). A time holds no "[",
# which would let each of many be tried to the line's end.
_QUOTED = r'[^"\\]*(?:\\.[^"\\]*)*'
# What may stand behind a line's fields: more fields, but never another line, which has a time in brackets.
TRAILING = rf'(?: (?:"{_QUOTED}"|[^\s"\[\]]+))*\s*'
_PATTERNS = {"status": r"\d{3}|-", "bytes": r"\d+|-", "user": r'\S+?|[^"\[\]]+?'}
_TIMES: dict[str, Callable[[str], datetime]] = {
    "clf": clf_time,
    "iso": as_time,
    "seconds": lambda text: _since_1970(text, 1),
    "milliseconds": lambda text: _since_1970(text, 1_000),
    "microseconds": lambda text: _since_1970(text, 1_000_000),
}


class Layout:
    """A parser of lines that are written by a format string.

    `absolute` ones give the whole address of a request, from which the site is taken.
    """

    def __init__(self, text: str, *, name: str = "", absolute: bool = False) -> None:
        self._name = name or "given"
        self._absolute = absolute
        self._fields, self._line, self._start = _compiled(text.replace('\\"', '"').replace("\\t", "\t"))
        self._times = [name for name in self._fields if name in _TIMES]
        if not self._times:
            raise Invalid("a format must have the time: $time_local, $time_iso8601, $msec or %t", field="format")

    def __call__(self, line: str) -> Document:
        """The event of one line.

        Raises: `Malformed`.
        """
        match = self._line.fullmatch(line)
        if match is None:
            raise Malformed(f"not the {self._name} format{self._why_not(line)}")
        found = {
            name: value for name, value in zip(self._fields, match.groups(), strict=True) if value not in ("-", "")
        }
        kind = next((name for name in self._times if name in found), None)
        if kind is None:
            raise Malformed("it has no time")
        if "-" in found.get("user", "").split(" "):  # a name may hold spaces, but no field that is empty
            raise Malformed("it has too many fields before its time: two lines in one, or a virtual host before them?")
        if "query" in found:
            found["query"] = found["query"].removeprefix("?")
        if "request" in found:  # it says more than a path, unless it is nothing but dashes
            found.pop("path" if found["request"].strip(" -") else "request", None)
        return event_of(_TIMES[kind](found[kind]), found, absolute=self._absolute)

    def _why_not(self, line: str) -> str:
        if not self._start.match(line):
            before = self._fields[: self._start.groups - 1]
            return f": it does not begin with {', '.join([*before, 'time'])}"
        return ": a quotation mark is missing (a cut line?)" if line.count('"') % 2 else ""


def is_layout(format: str) -> bool:
    """Whether this is a format string rather than a format's name."""
    return "$" in format or "%" in format


def _compiled(text: str) -> tuple[list[str], re.Pattern[str], re.Pattern[str]]:
    """The fields of a format, its lines, and their beginning up to the time."""
    if "$" in text:
        variable, name_of = _NGINX_PART, _nginx_name
    else:  # Apache writes the brackets around its time by itself
        variable, name_of, text = _APACHE_PART, _apache_name, re.sub("(?<!%)%t", "[%t]", text)
    matches = list(variable.finditer(text))
    fields: list[str] = []
    pattern = start = ""
    end = 0
    for match, following in zip_longest(matches, matches[1:]):
        before, behind = text[end : match.start()], text[match.end() : following.start() if following else None]
        if following and not behind:
            raise Invalid(f"nothing divides {match[0]}{following[0]}", field="format")
        name = name_of(match)
        taken = not name or name in fields
        pattern += f"{re.escape(before)}({'?:' if taken else ''}{_pattern(name, before[-1:], behind[:1])})"
        if not taken:
            fields.append(name)
        if name in _TIMES and not start:
            start = pattern
        end = match.end()
    return fields, re.compile(pattern + re.escape(text[end:]) + TRAILING), re.compile(start)


def _pattern(name: str, before: str, behind: str) -> str:
    if (before, behind) == ('"', '"'):
        return _QUOTED
    if (before, behind) == ("[", "]"):
        return r"[^\[\]]+"
    if name in _PATTERNS:
        return _PATTERNS[name]
    if behind == " ":
        return r'[^\s"]+'
    if behind in ("", ":"):  # an address before a port may hold colons itself
        return r'[^\s"\[\]]+'
    return rf"[^{re.escape(behind)}]*"


def _nginx_name(match: re.Match[str]) -> str:
    """Our name for a variable; nothing to pass it over."""
    return NGINX.get(match[1] or match[2], "")


def _apache_name(match: re.Match[str]) -> str:
    argument, letter = match[1], match[2]
    if letter == "%":
        raise Invalid("a format with %% is not understood", field="format")
    known = f"{argument.lower()}}}{letter}" if argument is not None and letter in "it" else letter
    if letter == "t" and argument is not None and known not in APACHE:
        raise Invalid(f"the time %{{{argument}}}t is not understood; %t, %{{sec}}t, %{{msec}}t are", field="format")
    return APACHE.get(known, "")


def _since_1970(text: str, unit: int) -> datetime:
    try:
        return in_calendar(EPOCH + timedelta(seconds=float(text) / unit))
    except (ValueError, OverflowError):
        raise Malformed("there is no such time") from None


_COMMON = '%h %l %u %t "%r" %>s %b'
_COMBINED = f'{_COMMON} "%{{Referer}}i" "%{{User-Agent}}i"'
# Fields that only newer logs have are left to what may stand behind a line.
_ELB = (
    "$time_iso8601 $elb $remote_addr:$client_port $target $t1 $t2 $t3 $status $target_status $received"
    ' $body_bytes_sent "$request"'
)
_S3 = (
    "$owner $server_name [$time_local] $remote_addr $remote_user $request_id $operation $key"
    ' "$request" $status $error $body_bytes_sent $size $total $turn "$http_referer" "$http_user_agent"'
)
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
    """A line of a classic load balancer; only newer ones have the user agent.

    Raises: `Malformed`.
    """
    try:
        return ELB_WITH_AGENT(line)
    except Malformed:
        return ELB(line)
