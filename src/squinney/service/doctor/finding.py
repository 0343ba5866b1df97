"""One line of what `doctor` reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["ok", "notice", "problem"]


@dataclass(frozen=True)
class Finding:
    """One line of the report. `doctor` fails only for the level `problem`."""

    level: Level
    area: str
    message: str
    advice: str = ""
    repairable: bool = False
    documents: dict[str, Any] = field(default_factory=dict)
