"""The worker processes of one lane, as the engine sees them."""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from squinney.pictures.timeline import Bar
from squinney.service.proving.worker import WorkerTask, run

MAX_DYING_SECONDS = 1.0
READING_SECONDS = 0.2  # until a worker has read what it is told
# Workers are forked from a process that has imported everything: a new one works within milliseconds of the kill, and
# costs the visitors of the site no processor time.
PRELOADED = ["squinney.service.proving.worker", "squinney.assembly", "squinney.service.commands.main"]
processes = multiprocessing.get_context("forkserver")


class LaneWorkers:
    """A fixed number of worker processes; a killed one is replaced."""

    def __init__(self, task: WorkerTask, size: int) -> None:
        processes.set_forkserver_preload([name for name in PRELOADED if name in sys.modules])
        self._task = task
        self._races = False
        self.rows = [_Row() for _ in range(size)]
        self._started = [0] * size
        self._workers = [self._start(position) for position in range(size)]

    def _start(self, position: int) -> _Worker:
        seed = position + len(self.rows) * self._started[position]
        self._started[position] += 1
        worker = _Worker(self._task, seed, self.rows[position])
        if self._races:
            worker.tell("races")
        return worker

    def await_begun(self, seconds: float) -> None:
        """Wait until every worker has begun its first operation, but not longer than this."""
        until = time.monotonic() + seconds
        while not all(worker.has_begun for worker in self._workers) and time.monotonic() < until:
            time.sleep(0.02)

    def race(self) -> None:
        """Let the workers use the same documents at the same time, on purpose."""
        self._races = True
        for worker in self._workers:
            worker.tell("races")

    def rest(self, seconds: float) -> None:
        """Let the workers end their operations and begin no others, but do not wait longer than this."""
        for worker in self._workers:
            worker.tell("rest")
        time.sleep(READING_SECONDS)  # one that has just begun has reported it by then
        until = time.monotonic() + seconds
        while any(row.is_open for row in self.rows) and time.monotonic() < until:
            time.sleep(0.02)

    def kill_one(self) -> None:
        """Let a random worker die at one of its next writes, as in a power cut, and start a new one.

        One that does not write soon is killed where it is. One that has begun to work is preferred.
        """
        working = [number for number, worker in enumerate(self._workers) if worker.has_begun]
        position = random.choice(working or range(len(self._workers)))
        worker = self._workers[position]
        worker.tell("kill")
        worker.wait(MAX_DYING_SECONDS)
        worker.kill()
        self.rows[position].cut()
        self._workers[position] = self._start(position)

    def kill_all(self) -> None:
        """Kill all workers."""
        for worker in self._workers:
            worker.process.kill()
        for worker, row in zip(self._workers, self.rows, strict=True):
            worker.kill()
            row.cut()

    def are_idle(self, begin: float, end: float) -> bool:
        """Return whether no operation ran between these times."""
        return not any(row.overlaps(begin, end) for row in self.rows)


class _Worker:
    """A worker process, and the two pipes to it and from it."""

    def __init__(self, task: WorkerTask, seed: int, row: _Row) -> None:
        told, self._tell = processes.Pipe(duplex=False)
        self._reported, reported = processes.Pipe(duplex=False)
        self.process: BaseProcess = processes.Process(target=run, args=(task, seed, told, reported), daemon=True)
        self.process.start()
        told.close()
        reported.close()
        self.has_begun = not task.pause_seconds  # else it reports when it begins
        self._reader = threading.Thread(target=self._read, args=[row, self._reported], daemon=True)
        self._reader.start()

    def _read(self, row: _Row, reported: Connection) -> None:
        with os.fdopen(os.dup(reported.fileno()), encoding="ascii", errors="replace") as lines:
            for line in lines:
                self.has_begun = True
                row.read(line)

    def tell(self, what: str) -> None:
        """Send the worker a line."""
        with suppress(OSError):  # it has ended by itself
            os.write(self._tell.fileno(), f"{what}\n".encode())

    def wait(self, seconds: float) -> None:
        """Wait until the worker is dead, but not longer than this."""
        self.process.join(seconds)

    def kill(self) -> None:
        """Kill the worker, and read the rest of what it reported."""
        self.process.kill()
        self.process.join()
        self._reader.join()
        self._tell.close()
        self._reported.close()


class _Row:
    """The runs of the workers at one position, one after the other. A thread for each worker adds them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, float] = {}  # by thread of the worker
        self.bars: list[Bar] = []

    def read(self, line: str) -> None:
        """Note what a worker reports."""
        with suppress(ValueError):  # the rest of a line of a worker that was killed while it wrote
            what, thread, at = line.split()
            self._note(what, thread, float(at))

    def _note(self, what: str, thread: str, at: float) -> None:
        with self._lock:
            if what == "began":
                self._open[thread] = at
            elif thread in self._open:
                self.bars.append(Bar(self._open.pop(thread), at, "done" if what == "done" else "refused"))

    def cut(self) -> None:
        """End the runs of a worker that is dead."""
        now = time.monotonic()
        with self._lock:
            self.bars += [Bar(began, now, "cut") for began in self._open.values()]
            self._open.clear()

    @property
    def is_open(self) -> bool:
        """Whether a run has begun and not ended."""
        with self._lock:
            return bool(self._open)

    def overlaps(self, begin: float, end: float) -> bool:
        """Return whether a run overlaps this time."""
        with self._lock:
            return any(began < end for began in self._open.values()) or any(
                bar.begin < end and bar.end > begin for bar in self.bars[-20:]
            )

    def counted(self) -> Sequence[Bar]:
        """Return all runs so far."""
        with self._lock:
            return list(self.bars)
