"""A periodic job as a system declares it; `jobs/` runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from squinney.mongo.schema import Db


@dataclass(frozen=True)
class Job:
    """`run(db)` every so many seconds; what it returns is kept as its last result. Safe when two run at once."""

    name: str
    every_seconds: float
    run: Callable[[Db], Mapping[str, Any]]
    what: str = ""
