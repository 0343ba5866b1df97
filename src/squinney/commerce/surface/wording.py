"""What is stored, as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

ELSEWHERE = ("genre", "issue_date")  # the page has places of their own for these


def labelled(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The details of a type that the page does not know, as labels and texts; what says nothing is left out."""
    shown = [(label(name), readable(value)) for name, value in details.items() if name not in ELSEWHERE]
    return [(name, text) for name, text in shown if text]


def label(name: str) -> str:
    """A field's name: `Screen size` for `screen_size`."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def readable(value: Any) -> str:
    """A value in words: lists with commas, objects with their labels, yes and no, dates without midnight."""
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
