"""`SchedulePlayer`: plays schedules of two transfers for a site's visitors, one at a time, in another process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from squinney.errors import Invalid, TooManyRequests, Unavailable
from squinney.patterns.bounded import Bounded

if TYPE_CHECKING:
    from squinney.testing.explorer.recording import Recording

COMMAND = [sys.executable, "-m", "squinney.service.proving.schedules.child"]
SCHEDULE = re.compile(r"([ab][!?~]?\d{0,2}|\.)( ([ab][!?~]?\d{0,2}|\.)){0,19}")
MAX_SECONDS = 30
WAIT_SECONDS = 2.0  # for the schedule of another visitor
MAX_KEPT = 100


@dataclass(frozen=True)
class PlayedSchedule:
    """A schedule that was played: its recording, and a test that plays it again."""

    recording: Recording
    test: str


@dataclass
class SchedulePlayer:
    """Plays each schedule once and keeps what happened. It is thread-safe."""

    uri: str = field(repr=False)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = Bounded[str, PlayedSchedule](MAX_KEPT)

    def play(self, schedule: str) -> PlayedSchedule:
        """Return what happens in this schedule.

        Raises: `Invalid` if it is not possible; `TooManyRequests` while another one is played.
        """
        # guard: what a visitor writes into the address is a short schedule
        if not SCHEDULE.fullmatch(schedule):
            raise Invalid("a schedule of two transfers looks like a b3 a2", field="schedule")
        if kept := self._kept.get(schedule):
            return kept
        # guard: one schedule is played at a time
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise TooManyRequests("another schedule is being played; try again in a few seconds")
        try:
            if schedule not in self._kept:
                self._kept[schedule] = self._play(schedule)
            return self._kept[schedule]
        finally:
            self._lock.release()

    def _play(self, schedule: str) -> PlayedSchedule:
        from squinney.service.proving.schedules.child import RECORDING, as_pytest  # slow to import: only who looks pays

        try:
            ended = subprocess.run(  # noqa: S603
                [*COMMAND, schedule],
                env={**os.environ, "MONGODB_URI": self.uri},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=MAX_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable("the schedule was not played in time") from error
        if ended.returncode:
            raise Invalid(ended.stderr.decode(errors="replace").strip().rpartition("\n")[2][:300], field="schedule")
        recording = RECORDING.validate_json(ended.stdout)
        return PlayedSchedule(recording, as_pytest(recording))
