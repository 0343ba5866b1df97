"""What a worker was told by the engine, for the code that it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Instructions:
    """`pause_seconds`: the mean pause after each operation. `races`: workers use the same documents on purpose.
    `rests`: they begin no other operation.
    """

    pause_seconds: float = 0
    races: bool = False
    rests: bool = False


instructions = Instructions()
