"""Plain JSON lines, with a map from our fields to theirs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from squinney.analytics.parsers.lines import Malformed, clf_time, event_of, in_calendar
from squinney.errors import Invalid
from squinney.mongo.schema import Document

# What web servers call our fields, of which the first that is there counts: nginx's variables and Traefik's names.
# A `host` beside the visitor's address is the one that was asked for.
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
_NOTHING = (None, "", "-")
_NUMBER = re.compile(r"\d{9,11}(\.\d{1,9})?")


class FieldMap:
    """A parser of JSON lines: `{"time": "timestamp", "path": "uri"}` says where to find what `ALIASES` do not name."""

    def __init__(self, field_map: Mapping[str, str] | None = None) -> None:
        unknown = set(field_map or {}) - set(FIELDS)
        if unknown:
            raise Invalid(f"field map: {', '.join(sorted(unknown))} is none of {', '.join(FIELDS)}", field="field_map")
        mapped = {name: (theirs,) for name, theirs in (field_map or {}).items()}
        taken = set((field_map or {}).values())
        self._names = {
            name: mapped.get(name) or tuple(theirs for theirs in ALIASES[name] if theirs not in taken)
            for name in FIELDS
        }

    def __call__(self, line: str) -> Document:
        """The event of one line.

        Raises: `Malformed`.
        """
        entry = json_object(line)
        named = {name: self._field_of(entry, name) for name in FIELDS}
        if named["site"] == named["host"]:
            named["site"] = None
        found = {name: entry[theirs] for name, theirs in named.items() if theirs is not None}
        if "time" not in found:
            looked = ", ".join(self._names["time"])
            raise Malformed(f"it has no time (looked for {looked}); a field map says where it is")
        return event_of(as_time(found["time"]), found)

    def _field_of(self, entry: Document, name: str) -> str | None:
        return next((theirs for theirs in self._names[name] if entry.get(theirs) not in _NOTHING), None)


def json_object(line: str) -> Document:
    """The line's JSON object.

    Raises: `Malformed`.
    """
    try:
        entry = json.loads(line)
        if "\\ud" in line.lower():  # half of a pair, which is no character, can only be written so
            json.dumps(entry, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Malformed("not Unicode: it has half of a surrogate pair") from None
    except (ValueError, RecursionError):
        raise Malformed("not JSON") from None
    if not isinstance(entry, dict):
        raise Malformed("not a JSON object")
    return entry


def as_time(value: Any) -> datetime:
    """Seconds since 1970, ISO 8601 or the Apache form, in UTC.

    Raises: `Malformed`; also for a time that does not say its zone.
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
        raise Malformed("the time does not say its zone")
    return in_calendar(at)
