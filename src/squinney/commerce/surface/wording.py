"""Formats stored details and values for people, and reads the numbers that people type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from squinney.errors import Invalid

SHOWN_SEPARATELY = ("genre", "issue_date")


def whole_number(text: str, field: str) -> int:
    """Return the number that a user typed.

    Raises: `Invalid`.
    """
    if not re.fullmatch("-?[0-9]{1,12}", text):
        raise Invalid(f"{field} must be a whole number", field=field)
    return int(text)


def labelled(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the details of a product as labels and texts; empty values are left out."""
    shown = [(label(name), readable(value)) for name, value in details.items() if name not in SHOWN_SEPARATELY]
    return [(name, text) for name, text in shown if text]


def label(name: str) -> str:
    """Format the name of a field: `Screen size` for `screen_size`."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def readable(value: Any) -> str:
    """Format a value: lists with commas, objects with labels, booleans as yes or no, dates without a time of 0:00."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}" if value.hour == value.minute == value.second == 0 else f"{value:%Y-%m-%d %H:%M} UTC"
    if isinstance(value, Mapping):
        return ", ".join(f"{label(name)}: {text}" for name, inner in value.items() if (text := readable(inner)))
    if isinstance(value, list):
        nested = any(isinstance(inner, Mapping | list) for inner in value)
        return ("; " if nested else ", ").join(text for inner in value if (text := readable(inner)))
    return str(value)
