"""Plain JSON lines, with a map from our fields to theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from squinney.analytics.parsers.lines import Malformed, clf_time, placed, put_request, put_target
from squinney.errors import Invalid
from squinney.mongo.schema import Document

TEXTS = ("host", "user", "method", "protocol", "referer", "user_agent")
COUNTS = ("status", "bytes")
FIELDS = ("time", "path", "query", "request", *TEXTS, *COUNTS)
MOST = 2**63 - 1


class FieldMap:
    """A parser of JSON lines: `{"time": "timestamp", "path": "uri"}` says where to find what is not named as ours."""

    def __init__(self, field_map: Mapping[str, str] | None = None) -> None:
        unknown = set(field_map or {}) - set(FIELDS)
        if unknown:
            raise Invalid(f"field map: {', '.join(sorted(unknown))} is none of {', '.join(FIELDS)}", field="field_map")
        self._names = {name: (field_map or {}).get(name, name) for name in FIELDS}

    def __call__(self, line: str) -> Document:
        """The event of one line.

        Raises: `Malformed`.
        """
        entry = json_object(line)
        found = {
            name: entry[theirs]
            for name, theirs in self._names.items()
            if theirs in entry and entry[theirs] not in (None, "", "-")
        }
        if "time" not in found:
            raise Malformed(f"it has no {self._names['time']}")
        event: Document = {"time": as_time(found["time"])}
        event.update({name: str(found[name]) for name in TEXTS if name in found})
        event.update({name: as_count(found[name], name) for name in COUNTS if name in found})
        if "path" in found:
            put_target(event, str(found["path"]))
        elif "request" in found:
            put_request(event, str(found["request"]))
        if "query" in found:
            event["query"] = str(found["query"])
        return event


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
        if isinstance(value, int | float) and not isinstance(value, bool):
            at = datetime.fromtimestamp(value, UTC)
        else:
            at = datetime.fromisoformat(value)
    except (ValueError, TypeError, OverflowError, OSError):
        return clf_time(str(value))
    if at.tzinfo is None:
        raise Malformed("the time does not say its zone")
    return placed(at)


def as_count(value: Any, field: str) -> int:
    """A whole number from zero, given as a number or in digits.

    Raises: `Malformed`.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value) < 20 else -1
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise Malformed(f"{field} is not a whole number")
    return value
