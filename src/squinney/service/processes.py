"""`Processes`: work that would hold the interpreter for long, done beside it, in a few processes of our own.

A thread that computes cannot be ended, and pages wait for the interpreter that it holds. A process has its own, gives
way to whoever serves pages, and can be ended. One is started when it is first needed, as a fresh Python: a fork of a
process with threads may hang on a lock that one of them held.
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
from typing import Any, ParamSpec, TypeVar, cast

from squinney.errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

NICE = 10
START_SECONDS = 20.0  # on a machine that is busy; half a second on one that is not
STARTED = "from squinney.service.processes import _work; _work()"


class Processes:
    """Calls functions in other processes: `at_once` of them, some more wait for a while, the rest is refused.

    Functions are found by their name; arguments and answers are pickled. A process that takes longer than
    `most_seconds` is ended, and the next call starts another. Several threads may use it. `close` ends all of them; the
    end of this process, however it comes, ends them too.
    """

    def __init__(
        self,
        *,
        at_once: int | None = None,
        most_waiting: int = 20,
        wait_seconds: float = 3.0,
        most_seconds: float = 6.0,
    ) -> None:
        self._at_once = at_once or max(1, (os.cpu_count() or 1) // 2)
        self._most_waiting = most_waiting
        self._wait_seconds = wait_seconds
        self._most_seconds = most_seconds
        self._changed = threading.Condition()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._waiting = 0
        self._is_closed = False

    def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function gives, or raises, in another process.

        Raises: `Unavailable` where too many wait, the wait or the work takes too long, or its process ends before it.
        """
        with self._process() as process:
            return cast(R, process.call(function, args, kwargs, self._most_seconds))

    def close(self) -> None:
        """End them all, whatever they are at; whoever waits for one is refused."""
        with self._changed:
            self._is_closed = True
            processes = [*self._idle, *self._busy]
            self._idle.clear()
            self._changed.notify_all()
        for process in processes:
            process.end()

    @contextmanager
    def _process(self) -> Iterator[_Process]:
        """One for the caller alone. Only one that has answered is used again."""
        with self._changed:
            self._wait_for_turn()
            process = self._idle_or_new()
            self._busy.add(process)
        try:
            yield process
        except _EndedError as error:
            raise self._refusal(str(error)) from None
        finally:
            self._give_back(process)

    def _wait_for_turn(self) -> None:
        may_go = len(self._busy) < self._at_once
        if not may_go and self._waiting < self._most_waiting:
            self._waiting += 1
            may_go = self._changed.wait_for(
                lambda: self._is_closed or len(self._busy) < self._at_once, self._wait_seconds
            )
            self._waiting -= 1
        if not may_go or self._is_closed:
            raise self._refusal("too much is being computed at this moment")

    def _idle_or_new(self) -> _Process:
        while self._idle:
            process = self._idle.pop()
            if process.is_ready:
                return process
            process.end()  # somebody killed it while it stood idle
        return _Process()

    def _give_back(self, process: _Process) -> None:
        with self._changed:
            self._busy.remove(process)
            is_kept = process.is_ready and not self._is_closed
            if is_kept:
                self._idle.append(process)
            self._changed.notify()
        if not is_kept:
            process.end()

    def _refusal(self, message: str) -> Unavailable:
        return Unavailable(message, retry_after_seconds=max(1, round(self._wait_seconds)))


class _EndedError(Exception):
    """A process ended, or was ended, before it answered."""


class _Process:
    """One process and the lines to and from it. It has a session of its own: Ctrl-C is for us, who then end it."""

    def __init__(self) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self._child = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-c", STARTED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )
        self._is_asked = False
        self._start_seconds = START_SECONDS  # its first call has so much more time

    @property
    def is_ready(self) -> bool:
        """Whether it waits for a call."""
        return not self._is_asked and self._child.poll() is None

    def call(self, function: Any, args: Any, kwargs: Any, seconds: float) -> Any:
        """The function's answer, or `_EndedError`."""
        question = pickle.dumps((seconds, function, args, kwargs))
        self._is_asked = True
        until = time.monotonic() + self._start_seconds + seconds
        clock = threading.Timer(self._start_seconds + seconds, self._child.kill)
        clock.start()
        try:
            is_well, answer = self._ask(question)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):  # a line that was closed is a `ValueError`
            self._child.kill()  # it may be alive, and what it said no answer
            is_late = time.monotonic() >= until or self._child.wait() == -signal.SIGALRM
            why = f"took longer than {seconds:g} s" if is_late else "ended before it was done"
            raise _EndedError(f"what was to be computed {why}") from None
        finally:
            clock.cancel()
        self._is_asked = False
        self._start_seconds = 0.0
        if is_well:
            return answer
        raise answer

    def _ask(self, question: bytes) -> Any:
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.write(question)
        self._child.stdin.flush()
        return pickle.load(self._child.stdout)  # noqa: S301

    def end(self) -> None:
        """At once; nothing is lost but what it was at."""
        self._child.kill()
        self._child.wait()
        for line in (self._child.stdin, self._child.stdout):
            with suppress(OSError):  # what it never read cannot be written
                assert line
                line.close()


def _work() -> None:
    """The life of such a process: answer until nobody asks. Its own clock ends it where nobody is left to do so."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a function prints is no answer
    has_priority = True  # until it has loaded what it needs
    with suppress(EOFError, OSError):
        while True:
            seconds, function, args, kwargs = pickle.load(sys.stdin.buffer)  # noqa: S301
            if has_priority:
                os.nice(NICE)
                has_priority = False
            signal.setitimer(signal.ITIMER_REAL, seconds)
            answer = _outcome(function, args, kwargs)
            signal.setitimer(signal.ITIMER_REAL, 0)
            pickle.dump(answer, answers)
            answers.flush()


def _outcome(function: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
    try:
        return True, function(*args, **kwargs)
    except Exception as error:
        return False, error
