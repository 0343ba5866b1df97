"""Validation of events and of time ranges; needs no database."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from squinney import checks
from squinney.analytics.calendar import EARLIEST, LATEST
from squinney.errors import Invalid
from squinney.mongo.schema import Document

TEXT_FIELDS = {"site", "host", "user", "method", "path", "query", "protocol", "referer", "user_agent", "request"}
NUMBER_FIELDS = {"status", "bytes"}
RESERVED_FIELDS = {"_id", "arrived"}
MAX_EXTRAS = 50
MAX_TEXT_LENGTH = 16_384
MAX_SITE_LENGTH = 1_024


def checked_event(event: Any) -> Document:
    """Validate a caller's event and return it with its time in UTC.

    Raises: `Invalid` for a missing or naive time, a wrong type, a field that only the event log sets, or too many
    fields.
    """
    if not isinstance(event, Mapping):
        raise Invalid("an event must be a document", field="event")
    if reserved := RESERVED_FIELDS & event.keys():
        raise Invalid(f"{min(reserved)} is set by the event log", field=min(reserved))
    extras = event.keys() - TEXT_FIELDS - NUMBER_FIELDS - {"time"}
    if len(extras) > MAX_EXTRAS:
        raise Invalid(f"an event may have at most {MAX_EXTRAS} custom fields", field="event", limit=MAX_EXTRAS)
    checked: Document = {"time": checked_moment(event.get("time"), "time")}
    checked.update(
        {name: checks.text(event[name], name, max_length=MAX_TEXT_LENGTH) for name in TEXT_FIELDS & event.keys()}
    )
    checked.update({name: checks.integer(event[name], name, minimum=0) for name in NUMBER_FIELDS & event.keys()})
    checked.update({checks.field_name(name, "event"): _scalar(event[name], name) for name in extras})
    return checked


def checked_moment(value: Any, field: str) -> datetime:
    """Return the time of an event or hit in UTC.

    Raises: `Invalid`; also for a year outside the supported ones.
    """
    at = checks.time(value, field)
    if not EARLIEST <= at < LATEST:
        raise Invalid(f"{field} must be from the year {EARLIEST:%Y} to before {LATEST:%Y}", field=field)
    return at


def checked_range(start: Any, end: Any) -> tuple[datetime, datetime]:
    """Return both times in UTC, limited to the years in which events and hits can be.

    Raises: `Invalid`; also where `start` is after `end`.
    """
    start, end = checks.time(start, "start"), checks.time(end, "end")
    if start > end:
        raise Invalid("start must not be after end", field="start")
    return min(max(start, EARLIEST), LATEST), max(min(end, LATEST), EARLIEST)


def checked_open_range(start: Any, end: Any) -> tuple[datetime, datetime]:
    """Return both times in UTC; None means from the first event, or up to the last one."""
    return checked_range(EARLIEST if start is None else start, LATEST if end is None else end)


def _scalar(value: Any, field: str) -> Any:
    if isinstance(value, str):
        return checks.text(value, field, max_length=MAX_TEXT_LENGTH)
    if isinstance(value, datetime):
        return checks.time(value, field)
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{field} must be a finite number", field=field)
    if value is None or isinstance(value, bool | float):
        return value
    return checks.integer(value, field)


def within(start: datetime, end: datetime) -> Document:
    """Return the condition for times from `start` (included) to `end` (excluded)."""
    return {"$gte": start, "$lt": end}
