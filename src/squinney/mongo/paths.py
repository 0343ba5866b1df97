"""Dotted paths, as the server reads them but for arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """The value at `details.size.width`; None where there is none."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
