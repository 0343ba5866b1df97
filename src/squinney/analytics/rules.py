"""What an event may be, and which times may be asked of events, hits and roll-ups, without a database."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from squinney import checks
from squinney.analytics.calendar import EARLIEST, LATEST
from squinney.analytics.events.documents import LONGEST_TEXT
from squinney.errors import Invalid
from squinney.mongo.schema import Document

TEXTS = {"site", "host", "user", "method", "path", "query", "protocol", "referer", "user_agent", "request"}
COUNTS = {"status", "bytes"}
OURS = {"_id", "arrived", "ssk"}
MOST_EXTRAS = 50


def checked_event(event: Any) -> Document:
    """An event from outside, with its time in UTC.

    Raises: `Invalid` for a missing or naive time, a wrong type, a field that is ours to set, or one too many.
    """
    if not isinstance(event, Mapping):
        raise Invalid("an event must be a document", field="event")
    if taken := OURS & event.keys():
        raise Invalid(f"{min(taken)} is set by the event log", field=min(taken))
    extras = event.keys() - TEXTS - COUNTS - {"time"}
    if len(extras) > MOST_EXTRAS:
        raise Invalid(f"an event has at most {MOST_EXTRAS} fields of its own", field="event", limit=MOST_EXTRAS)
    checked: Document = {"time": checked_moment(event.get("time"), "time")}
    checked.update({name: checks.text(event[name], name, most=LONGEST_TEXT) for name in TEXTS & event.keys()})
    checked.update({name: checks.integer(event[name], name, least=0) for name in COUNTS & event.keys()})
    checked.update({checks.field_name(name, "event"): _scalar(event[name], name) for name in extras})
    return checked


def checked_moment(value: Any, field: str) -> datetime:
    """The time of an event or hit: one that every calendar has.

    Raises: `Invalid`.
    """
    at = checks.time(value, field)
    if not EARLIEST <= at < LATEST:
        raise Invalid(f"{field} must be from the year {EARLIEST:%Y} to before {LATEST:%Y}", field=field)
    return at


def checked_range(start: Any, end: Any) -> tuple[datetime, datetime]:
    """Two times in order, cut to the years that may hold events and hits.

    Raises: `Invalid`.
    """
    start, end = checks.time(start, "start"), checks.time(end, "end")
    if start > end:
        raise Invalid("start must not be behind end", field="start")
    return min(max(start, EARLIEST), LATEST), max(min(end, LATEST), EARLIEST)


def checked_sides(start: Any, end: Any) -> tuple[datetime, datetime]:
    """Two times in order, of which each may be left out: then it is from the first event, or to the last.

    Raises: `Invalid`.
    """
    return checked_range(EARLIEST if start is None else start, LATEST if end is None else end)


def _scalar(value: Any, field: str) -> Any:
    if isinstance(value, str):
        return checks.text(value, field, most=LONGEST_TEXT)
    if isinstance(value, datetime):
        return checks.time(value, field)
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{field} must be a finite number", field=field)
    if value is None or isinstance(value, bool | float):
        return value
    return checks.integer(value, field)
