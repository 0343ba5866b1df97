"""Apache's common and combined formats, with virtual hosts before them and more fields behind; nginx's too."""

from __future__ import annotations

import re

from squinney.analytics.parsers.layouts import TRAILING
from squinney.analytics.parsers.lines import Malformed, Parse, checked_user, clf_time, put_request, site_of
from squinney.mongo.schema import Document

# Apache writes a quote inside a field as \" (unrolled, so that no line can make the match slow). A time holds no "[",
# which would let each of many be tried to the line's end.
_QUOTED = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_COMMON = rf'(\S+) \S+ ([^"\[\]]+?) \[([^\[\]]+)\] {_QUOTED} (\d{{3}}) (\d+|-)'
_COMMON_LINE = re.compile(rf"{_COMMON}{TRAILING}")
_COMBINED_LINE = re.compile(rf"{_COMMON} {_QUOTED} {_QUOTED}{TRAILING}")
_SITE_BEFORE = re.compile(r"(\S+) (?=\S+ \S+ )")
# Nearly every line is like this, and one match takes it apart down to the query; the others take the careful way.
_USUAL_LINE = re.compile(
    r'(\S+) \S+ (\S+) \[([^\[\]]+)\] "([A-Z]{3,10}) ([^ "?\\]+)(?:\?([^ "\\]*))? (HTTP/\d\.\d)" '
    r'(\d{3}) (\d{1,18}|-) "([^"\\]*)" "([^"\\]*)"'
)
_START = re.compile(r"\S+ \S+ .+? \[[^\[\]]+\]")


def parse_combined(line: str) -> Document:
    """A line of the combined format.

    Raises: `Malformed`.
    """
    usual = _USUAL_LINE.fullmatch(line)
    if usual is not None:
        return _usual_event(*usual.groups())
    match = _COMBINED_LINE.fullmatch(line)
    if match is None:
        raise Malformed(_why_not(line, "combined"))
    host, user, at, request, status, size, referer, agent = match.groups()
    event = _event(host, user, at, request, status, size)
    if referer not in ("-", ""):
        event["referer"] = referer
    if agent not in ("-", ""):
        event["user_agent"] = agent
    return event


def _usual_event(
    host: str,
    user: str,
    at: str,
    method: str,
    path: str,
    query: str | None,
    protocol: str,
    status: str,
    size: str,
    referer: str,
    agent: str,
) -> Document:
    event: Document = {"time": clf_time(at), "host": host}
    if user != "-":
        event["user"] = user
    event["method"] = method
    event["path"] = path
    if query is not None:
        event["query"] = query
    event["protocol"] = protocol
    event["status"] = int(status)
    if size != "-":
        event["bytes"] = int(size)
    if referer not in ("-", ""):
        event["referer"] = referer
    if agent not in ("-", ""):
        event["user_agent"] = agent
    return event


def parse_common(line: str) -> Document:
    """A line of the common format.

    Raises: `Malformed`.
    """
    match = _COMMON_LINE.fullmatch(line)
    if match is None:
        raise Malformed(_why_not(line, "common"))
    return _event(*match.groups())


def _with_site(parse: Parse, name: str) -> Parse:
    def parse_with_site(line: str) -> Document:
        site = _SITE_BEFORE.match(line)
        if site is None:
            raise Malformed(f"not the {name} format: it does not begin with a virtual host")
        event = parse(line[site.end() :])
        return {"time": event.pop("time"), "site": site_of(site[1]), **event}

    return parse_with_site


# Debian's other_vhosts_access.log: `%v:%p` before the combined format.
parse_vhost_combined = _with_site(parse_combined, "vhost_combined")
parse_vhost_common = _with_site(parse_common, "vhost_common")


def _event(host: str, user: str, at: str, request: str, status: str, size: str) -> Document:
    event: Document = {"time": clf_time(at), "host": host, "status": int(status)}
    if user != "-":
        event["user"] = checked_user(user)
    put_request(event, request)
    if size != "-":
        if len(size) > 18:
            raise Malformed("the size is too large to be one")
        event["bytes"] = int(size)
    return event


def _why_not(line: str, format: str) -> str:
    if not _START.match(line):
        return f"not the {format} format: it does not begin with host, user and [time]"
    if line.count('"') % 2:
        return f"not the {format} format: a quotation mark is missing (a cut line?)"
    return f"not the {format} format"
