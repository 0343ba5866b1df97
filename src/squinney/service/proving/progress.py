"""How far a proof is: what its engine knows, and what the pages and the command show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from pydantic import TypeAdapter

from squinney.pictures.timeline import Bar

State = Literal["starting", "running", "checking", "done", "failed"]


@dataclass
class LaneProgress:
    """One lane. Times are seconds since the proof began; `levels` are the sums of all balances, if there are any.

    `verdict` has each promise with what is wrong, which is empty if the promise holds.
    """

    name: str
    title: str
    total: int = 0
    operations: int = 0
    refused: int = 0
    kills: list[float] = field(default_factory=list)
    recovered: Counter[str] = field(default_factory=Counter)
    levels: list[tuple[float, int]] = field(default_factory=list)
    lowest: int = 0
    rows: list[list[Bar]] = field(default_factory=list)
    verdict: dict[str, str] = field(default_factory=dict)

    @property
    def level(self) -> int:
        """The sum of all balances when it was last measured."""
        return self.levels[-1][1] if self.levels else self.total


@dataclass
class Progress:
    """A whole proof. `stage` is the number of the current stage, from 0; `server` is the version of MongoDB."""

    subject: str
    title: str
    lanes: list[LaneProgress]
    total_seconds: float
    state: State = "starting"
    stage: int = 0
    seconds: float = 0
    server: str = ""
    message: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed")


PROGRESS = TypeAdapter(Progress)
