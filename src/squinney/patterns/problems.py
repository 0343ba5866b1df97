"""What `find_problems` of a system yields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Problem:
    """Something wrong in stored data: a stable code, the documents concerned, and whether `repair` mends it."""

    code: str
    message: str
    documents: dict[str, Any] = field(default_factory=dict)
    repairable: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
