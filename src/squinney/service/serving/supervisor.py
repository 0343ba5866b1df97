"""Several processes that serve one port, and the parent that restarts those that die."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from types import FrameType

from squinney.cli.exit_codes import FAILED, INTERRUPTED

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0  # before a process is started instead of one that died


@dataclass(frozen=True)
class Worker:
    """One of the processes: its number from 0, of how many, and a pipe on which the first says that it serves.

    A replacement serves in place of one that died, and says nothing again.
    """

    number: int = 0
    of: int = 1
    ready: int | None = None
    is_replacement: bool = False

    @property
    def is_first(self) -> bool:
        """Return whether it does what only one process does: the jobs, and telling the address."""
        return self.number == 0

    def serves(self) -> None:
        """Tell the parent that the collections are there, so that it starts the others."""
        if self.ready is not None:
            os.write(self.ready, b".")
            os.close(self.ready)


@dataclass
class Supervisor:
    """The parent. Its children inherit the listening socket, so no connection is lost when one of them dies."""

    count: int
    _pids: dict[int, int] = field(default_factory=dict)  # number by process id
    _ended_by: int = 0
    _exit_code: int = 0

    def start(self) -> Worker:
        """Start the processes. It returns in each of them; in the parent it never returns.

        It is called before anything has started a thread or a connection: a process that is forked has neither.
        """
        gc.collect()
        gc.freeze()  # the children share the loaded modules
        reading, writing = os.pipe()
        if (worker := self._fork(0, writing)) is not None:
            os.close(reading)
            return worker
        os.close(writing)
        for end in (signal.SIGTERM, signal.SIGINT):
            signal.signal(end, self._end)
        if not os.read(reading, 1):  # the first one has ended before it served, and has said why
            sys.exit(max(os.waitstatus_to_exitcode(os.wait()[1]), 0) or (0 if self._ended_by else FAILED))
        os.close(reading)
        for number in range(1, self.count):
            if (worker := self._fork(number)) is not None:
                return worker
        return self._watch()

    def _fork(self, number: int, ready: int | None = None, *, is_replacement: bool = False) -> Worker | None:
        """Return the worker in the child, None in the parent."""
        pid = os.fork()
        if pid:
            self._pids[pid] = number
            return None
        signal.signal(signal.SIGTERM, _terminate)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return Worker(number, self.count, ready, is_replacement)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ended_by = number
        for pid in self._pids:
            os.kill(pid, signal.SIGTERM)  # a second SIGINT would end requests that are under way

    def _watch(self) -> Worker:
        """Restart processes that die, until all have ended because of a signal; returns in a restarted one."""
        while self._pids:
            pid, status = os.wait()
            number = self._pids.pop(pid, 0)
            if self._ended_by:
                continue
            code = os.waitstatus_to_exitcode(status)
            if code > 0 and code != INTERRUPTED:  # it says why, and would end so again
                self._end(signal.SIGTERM, None)
                self._exit_code = code
                continue
            log.error("process %s of %s has died and is restarted", number + 1, self.count)
            time.sleep(PAUSE_SECONDS)
            if not self._ended_by and (worker := self._fork(number, is_replacement=True)) is not None:
                return worker
        sys.exit(self._exit_code or (INTERRUPTED if self._ended_by == signal.SIGINT else 0))


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
