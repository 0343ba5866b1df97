"""Dotted paths, as the server reads them, but without arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as `details.size.width`, or None."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
