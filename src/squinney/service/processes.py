"""`Processes`: runs slow computations in a few worker processes.

A thread that computes cannot be stopped, and pages wait while it holds the interpreter lock. A worker process has its
own interpreter and a lower priority than the service, and can be killed. Workers are started when they are first
needed, as a new Python process: a fork of a process with threads may hang on a lock that one of the threads held.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar, cast

from squinney.errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

NICE = 10
START_SECONDS = 20.0  # enough on a busy machine; on an idle one it takes half a second
STARTED = "from squinney.service.processes import _work; _work()"


class Processes:
    """Calls functions in worker processes. `at_once` calls run, `max_waiting` wait up to `wait_seconds`, others fail.

    Functions are found by name; arguments and results are pickled. A worker that takes longer than `max_seconds` is
    killed, and the next call starts a new one. Instances are thread-safe. `close` kills all workers; they also stop
    when this process ends, even if it is killed.
    """

    def __init__(
        self,
        *,
        at_once: int | None = None,
        max_waiting: int = 20,
        wait_seconds: float = 3.0,
        max_seconds: float = 6.0,
    ) -> None:
        self._at_once = at_once or max(1, (os.cpu_count() or 1) // 2)
        self._max_waiting = max_waiting
        self._wait_seconds = wait_seconds
        self._max_seconds = max_seconds
        self._changed = threading.Condition()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._waiting = 0
        self._is_closed = False

    def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function in a worker process; return or raise what the function returns or raises.

        Raises: `Unavailable` if too many calls wait, the wait or the call takes too long, or the worker dies.
        """
        with self._process() as process:
            return cast(R, process.call(function, args, kwargs, self._max_seconds))

    def close(self) -> None:
        """Kill all workers, also busy ones, and refuse the calls that wait."""
        with self._changed:
            self._is_closed = True
            # guard: closing kills busy workers
            processes = [*self._idle, *self._busy]
            self._idle.clear()
            self._changed.notify_all()
        for process in processes:
            process.kill()

    @contextmanager
    def _process(self) -> Iterator[_Process]:
        """Give the caller exclusive use of a worker. Only a worker that has returned a result is used again."""
        with self._changed:
            self._wait_for_turn()
            process = self._idle_or_new()
            self._busy.add(process)
        try:
            yield process
        except _WorkerLostError as error:
            raise self._refusal(str(error)) from None
        finally:
            self._give_back(process)

    def _wait_for_turn(self) -> None:
        may_go = len(self._busy) < self._at_once
        # guard: the number of waiting calls is limited
        if not may_go and self._waiting < self._max_waiting:
            self._waiting += 1
            may_go = self._changed.wait_for(
                lambda: self._is_closed or len(self._busy) < self._at_once, self._wait_seconds
            )
            # guard: a call that waited too long no longer counts as waiting
            self._waiting -= 1
        if not may_go or self._is_closed:
            raise self._refusal("too many computations are in progress; try again later")

    def _idle_or_new(self) -> _Process:
        while self._idle:
            process = self._idle.pop()
            # guard, 2 lines: a worker that died while idle is not used
            if process.is_ready:
                return process
            process.kill()  # it died while it was idle
        return _Process()

    def _give_back(self, process: _Process) -> None:
        with self._changed:
            self._busy.remove(process)
            is_kept = process.is_ready and not self._is_closed
            if is_kept:
                self._idle.append(process)
            self._changed.notify()
        if not is_kept:
            process.kill()

    def _refusal(self, message: str) -> Unavailable:
        return Unavailable(message, retry_after_seconds=max(1, round(self._wait_seconds)))


class _WorkerLostError(Exception):
    """A worker died or was killed before it returned a result."""


class _Process:
    """A worker process and its pipe. It has its own session, so that Ctrl-C reaches only the parent."""

    def __init__(self) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self._pipe, its_end = Pipe()
        with its_end:
            self._child = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-c", STARTED, str(its_end.fileno())],
                pass_fds=[its_end.fileno()],
                stdin=subprocess.DEVNULL,
                # guard: output of a function does not mix with the output of the process
                stdout=2,  # output of a function must not mix with the output of this process
                env={**os.environ, "PYTHONPATH": paths},
                start_new_session=True,
            )
        self._is_busy = False
        self._start_seconds = START_SECONDS  # additional time for the first call

    @property
    def is_ready(self) -> bool:
        """Whether the worker is idle and alive."""
        return not self._is_busy and self._child.poll() is None

    def call(self, function: Any, args: Any, kwargs: Any, seconds: float) -> Any:
        """Return or raise the function's result.

        Raises: `_WorkerLostError`.
        """
        request = pickle.dumps((seconds, function, args, kwargs))
        self._is_busy = True
        until = time.monotonic() + self._start_seconds + seconds
        clock = threading.Timer(self._start_seconds + seconds, self._child.kill)
        # guard: a worker that hangs is killed
        clock.start()
        try:
            self._pipe.send_bytes(request)
            succeeded, result = self._pipe.recv()
        except (OSError, EOFError):
            self._child.kill()  # it may be alive, if the function has closed its pipe
            is_late = time.monotonic() >= until or self._child.wait() == -signal.SIGALRM
            reason = f"took longer than {seconds:g} s" if is_late else "was interrupted"
            raise _WorkerLostError(f"the computation {reason}") from None
        finally:
            clock.cancel()
        self._is_busy = False
        self._start_seconds = 0.0
        if succeeded:
            return result
        raise result

    def kill(self) -> None:
        """Kill the worker at once; only its current call is lost. The pipe closes when no call uses it any more."""
        self._child.kill()
        self._child.wait()


def _work() -> None:
    """Run calls in a worker until its parent is gone. A timer kills a call that hangs if the parent cannot."""
    pipe = Connection(int(sys.argv[1]))
    has_priority = True  # until its first call has been unpickled, which loads the modules
    with suppress(EOFError, OSError):
        while True:
            seconds, function, args, kwargs = pipe.recv()
            if has_priority:
                # guard: workers have a lower priority than the service
                os.nice(NICE)
                has_priority = False
            # guard: a worker that hangs is killed by its own timer if the parent is dead
            signal.setitimer(signal.ITIMER_REAL, seconds)
            result = _outcome(function, args, kwargs)
            signal.setitimer(signal.ITIMER_REAL, 0)
            pipe.send(result)


def _outcome(function: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
    try:
        return True, function(*args, **kwargs)
    except Exception as error:
        return False, error
