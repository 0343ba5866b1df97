"""Checks of input from outside, done once, where it enters a system: each returns the value or raises `Invalid`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from squinney.errors import Invalid

INT64_MAX = 2**63 - 1
LONGEST_SECONDS = 100 * 366 * 86_400


def text(value: Any, field: str, *, most: int, least: int = 0, pattern: str | None = None, like: str = "") -> str:
    """Require a string of `least` to `most` characters, without NUL or lone surrogates, that fully matches `pattern`.

    `like` describes the pattern in words, for the error.
    """
    if not isinstance(value, str):
        raise Invalid(f"{field} must be a string", field=field)
    if not least <= len(value) <= most:
        raise Invalid(f"{field} must have {least} to {most} characters, not {len(value)}", field=field, limit=most)
    if "\0" in value:
        raise Invalid(f"{field} must not contain a NUL character", field=field)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{field} must be valid Unicode", field=field) from None
    if pattern and not re.fullmatch(pattern, value):
        raise Invalid(f"{field} must be {like}" if like else f"{field} must match {pattern}", field=field)
    return value


def identifier(value: Any, field: str) -> str:
    """Require a string that can be an `_id`: 1 to 200 characters."""
    return text(value, field, least=1, most=200)


def integer(value: Any, field: str, *, least: int = -INT64_MAX, most: int = INT64_MAX) -> int:
    """Require an int (not a bool or float) from `least` to `most`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid(f"{field} must be a whole number", field=field)
    if not least <= value <= most:
        raise Invalid(f"{field} must be from {least} to {most}", field=field, limit=most)
    return value


def seconds(value: Any, field: str) -> float:
    """Require a time span that can be subtracted from a date: a number of seconds from 0 to a hundred years."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LONGEST_SECONDS:
        raise Invalid(f"{field} must be a number from 0 to {LONGEST_SECONDS}", field=field, limit=LONGEST_SECONDS)
    return value


def time(value: Any, field: str) -> datetime:
    """Require an aware time; return it in UTC, truncated to the milliseconds that MongoDB stores."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise Invalid(f"{field} must be a time with a time zone", field=field)
    try:
        at = value.astimezone(UTC)
    except OverflowError:
        raise Invalid(f"{field} must be within the years 1 to 9999 in UTC", field=field) from None
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def storable(message: str, *, most: int) -> str:
    """Return the first `most` characters of an unchecked message, with a lone surrogate escaped as `\\udc80`."""
    return message[:most].encode("utf-8", "backslashreplace").decode()


def field_name(value: Any, field: str, *, most: int = 200) -> str:
    """Require a string that can be a field name in a document: not empty, no `.`, no leading `$`, no NUL."""
    name = text(value, field, least=1, most=most)
    if name.startswith("$") or "." in name:
        raise Invalid(f"{field} must not begin with $ or contain a dot", field=field)
    return name
