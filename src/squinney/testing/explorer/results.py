"""What an explorer tells: `Explored` if all went well, `Refuted` if a schedule went wrong."""

from __future__ import annotations

from dataclasses import dataclass

from squinney.testing.explorer.recording import Recording


class Refuted(AssertionError):
    """Something is wrong after a schedule. Pass `schedule` as `replay` to play it again.

    An `Explorer` that records adds the `recording` of it: every command, and the documents after it.
    """

    def __init__(self, message: str, schedule: str) -> None:
        super().__init__(message)
        self.schedule = schedule
        self.recording: Recording | None = None


class NotControlled(AssertionError):
    """An operation did what no schedule can hold or undo, such as a command in a thread, or by a client, of its own."""


@dataclass(frozen=True)
class Explored:
    """How many schedules were played; in how many an operation died, or lost a reply, or gave up.

    `complete`: all possible schedules were played.
    """

    schedules: int
    crashes: int
    lost_replies: int
    gave_up: int
    complete: bool
    seconds: float
