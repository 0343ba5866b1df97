"""Checks of input from outside, done once, where it enters a system: each returns the value or raises `Invalid`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from squinney.errors import Invalid

INT64_MAX = 2**63 - 1
MAX_SECONDS = 100 * 366 * 86_400


def text(
    value: Any, field: str, *, max_length: int, min_length: int = 0, pattern: str | None = None, like: str = ""
) -> str:
    """Require a string of `min_length` to `max_length` characters that matches all of `pattern`.

    NUL and lone surrogates are never allowed.

    `like` describes the pattern in words, for the error.
    """
    if not isinstance(value, str):
        raise Invalid(f"{field} must be a string", field=field)
    if not min_length <= len(value) <= max_length:
        raise Invalid(
            f"{field} must have {min_length} to {max_length} characters, not {len(value)}",
            field=field,
            limit=max_length,
        )
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
    return text(value, field, min_length=1, max_length=200)


def integer(value: Any, field: str, *, minimum: int = -INT64_MAX, maximum: int = INT64_MAX) -> int:
    """Require an int (not a bool or float) from `minimum` to `maximum`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid(f"{field} must be a whole number", field=field)
    if not minimum <= value <= maximum:
        raise Invalid(f"{field} must be from {minimum} to {maximum}", field=field, limit=maximum)
    return value


def seconds(value: Any, field: str) -> float:
    """Require a time span that can be subtracted from a date: a number of seconds from 0 to a hundred years."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MAX_SECONDS:
        raise Invalid(f"{field} must be a number from 0 to {MAX_SECONDS}", field=field, limit=MAX_SECONDS)
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


def storable(message: str, *, max_length: int) -> str:
    """Return the first `max_length` characters of an unchecked message, with a lone surrogate escaped as `\\udc80`."""
    return message[:max_length].encode("utf-8", "backslashreplace").decode()


def field_name(value: Any, field: str, *, max_length: int = 200) -> str:
    """Require a string that can be a field name in a document: not empty, no `.`, no leading `$`, no NUL."""
    name = text(value, field, min_length=1, max_length=max_length)
    if name.startswith("$") or "." in name:
        raise Invalid(f"{field} must not begin with $ or contain a dot", field=field)
    return name
