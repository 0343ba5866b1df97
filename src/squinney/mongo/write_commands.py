"""Tell the commands that write from those that only read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WRITES = {"insert", "update", "delete", "findAndModify", "bulkWrite", "commitTransaction"}


def is_write(name: str, command: Mapping[str, Any]) -> bool:
    """Return whether the command may change documents. `abortTransaction` changes none."""
    if name == "aggregate":
        return any(operator in ("$out", "$merge") for stage in command.get("pipeline", ())[-1:] for operator in stage)
    return name in WRITES
