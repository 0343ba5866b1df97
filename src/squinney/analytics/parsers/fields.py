"""The parsers for JSON lines: by a map from our field names to those of the log, and for Caddy's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from squinney.analytics.parsers.lines import Malformed, clf_time, event_of, in_calendar
from squinney.errors import Invalid
from squinney.mongo.schema import Document

# The names that nginx, Traefik and others use for our fields; the first one that a line has is used. If a line has
# another field for the client's address, its `host` is the requested site.
ALIASES: dict[str, tuple[str, ...]] = {
    "time": ("StartUTC", "time", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec", "ts", "date"),
    "host": ("remote_addr", "remote_ip", "ClientHost", "client_ip", "clientip", "http_x_real_ip", "host"),
    "site": ("site", "vhost", "http_host", "server_name", "RequestHost", "host"),
    "user": ("user", "remote_user", "ClientUsername"),
    "method": ("method", "request_method", "RequestMethod"),
    "path": ("path", "request_uri", "RequestPath", "uri", "url"),
    "query": ("query", "args", "query_string"),
    "request": ("request",),
    "protocol": ("protocol", "server_protocol", "RequestProtocol", "proto"),
    "status": ("status", "DownstreamStatus", "OriginStatus", "status_code"),
    "bytes": ("bytes", "body_bytes_sent", "DownstreamContentSize", "bytes_sent", "size"),
    "referer": ("referer", "http_referer", "request_Referer", "referrer"),
    "user_agent": ("user_agent", "http_user_agent", "request_User-Agent", "agent"),
}
FIELDS = tuple(ALIASES)
_ABSENT = (None, "", "-")
_NUMBER = re.compile(r"\d{9,11}(\.\d{1,9})?")


class FieldMap:
    """A parser for JSON lines. A map such as `{"time": "timestamp", "path": "uri"}` overrides names in `ALIASES`."""

    def __init__(self, field_map: Mapping[str, str] | None = None) -> None:
        given = field_map or {}
        if unknown := given.keys() - ALIASES.keys():
            message = f"field_map: {', '.join(sorted(unknown))} is not one of {', '.join(FIELDS)}"
            raise Invalid(message, field="field_map")
        self._names = {
            name: [given[name]] if name in given else [alias for alias in aliases if alias not in given.values()]
            for name, aliases in ALIASES.items()
        }

    def __call__(self, line: str) -> Document:
        """Parse one line."""
        entry = json_object(line)
        names = {name: self._name_in(entry, name) for name in FIELDS}
        if names["site"] == names["host"]:
            names["site"] = None
        found = {name: entry[log_name] for name, log_name in names.items() if log_name is not None}
        if "time" not in found:
            tried = ", ".join(self._names["time"])
            raise Malformed(f"it has no time (looked for {tried}); name its field with a field map")
        return event_of(as_time(found["time"]), found)

    def _name_in(self, entry: Document, name: str) -> str | None:
        return next((alias for alias in self._names[name] if entry.get(alias) not in _ABSENT), None)


def json_object(line: str) -> Document:
    """Return the line's JSON object."""
    try:
        entry = json.loads(line)
        if "\\ud" in line.lower():  # only such an escape can produce a lone surrogate, which cannot be stored
            json.dumps(entry, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Malformed("not Unicode: it has a lone surrogate") from None
    except (ValueError, RecursionError):
        raise Malformed("not JSON") from None
    if not isinstance(entry, dict):
        raise Malformed("not a JSON object")
    return entry


def as_time(value: Any) -> datetime:
    """Parse seconds since 1970, ISO 8601 or Apache's format, and return the time in UTC.

    Raises: `Malformed`; also for a time without a time zone.
    """
    try:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = float(value)  # as nginx writes $msec
        if isinstance(value, int | float) and not isinstance(value, bool):
            at = datetime.fromtimestamp(value, UTC)
        else:
            at = datetime.fromisoformat(value)
    except (ValueError, TypeError, OverflowError, OSError):
        return clf_time(str(value))
    if at.tzinfo is None:
        raise Malformed("the time has no time zone")
    return in_calendar(at)


def parse_caddy(line: str) -> Document:
    """Parse a line of Caddy's `http.log.access`, which has the request in a nested object."""
    entry = json_object(line)
    request = entry.get("request")
    if not isinstance(request, dict) or "ts" not in entry:
        raise Malformed("not Caddy's format: it has no request or no ts")
    found = {
        "host": request.get("remote_ip") or str(request.get("remote_addr", "")).rpartition(":")[0],
        "site": request.get("host"),
        "user": entry.get("user_id"),
        "method": request.get("method"),
        "path": request.get("uri"),
        "protocol": request.get("proto"),
        "status": entry.get("status"),
        "bytes": entry.get("size"),
        "referer": _header(request, "Referer"),
        "user_agent": _header(request, "User-Agent"),
    }
    return event_of(as_time(entry["ts"]), {name: value for name, value in found.items() if value not in (None, "")})


def _header(request: Document, name: str) -> Any:
    headers = request.get("headers")
    values = headers.get(name) if isinstance(headers, dict) else None
    return values[0] if isinstance(values, list) and values else None
