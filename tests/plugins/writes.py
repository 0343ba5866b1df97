"""Which commands write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WRITES = {"insert", "update", "delete", "findAndModify", "bulkWrite", "commitTransaction"}


def is_write(name: str, command: Mapping[str, Any]) -> bool:
    """Whether the command may change documents. An abort changes none."""
    if name == "aggregate":
        return any(stage in ("$out", "$merge") for step in command.get("pipeline", ())[-1:] for stage in step)
    return name in WRITES
