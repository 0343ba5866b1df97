"""Worker processes: calls that hang, die or come in large numbers block nothing and leave no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from squinney.errors import Unavailable
from squinney.service import processes as processes_module
from squinney.service.processes import Processes


@pytest.fixture
def processes() -> Iterator[Processes]:
    some = Processes(at_once=1)
    yield some
    some.close()


def is_running(pid: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path("/proc").is_dir() else True
    return False


def eventually(holds: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within two minutes."""
    until = time.monotonic() + 120
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


def test_one_worker_runs_many_calls_with_a_lower_priority(processes: Processes) -> None:
    first = processes(os.getpid)
    assert first not in (os.getpid(), os.getppid())
    assert processes(os.getpid) == first
    assert processes(os.nice, 0) == min(os.nice(0) + 10, 19)  # the lowest that there is
    assert processes(os.getsid, 0) == first, "Ctrl-C of our terminal would reach it"


def test_exceptions_and_output_of_a_function_do_no_harm(
    processes: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ZeroDivisionError):
        processes(divmod, 1, 0)
    assert processes(print, "\n") is None
    assert processes(divmod, 7, 2) == (3, 1)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("hang", [(time.sleep, 60), (signal.raise_signal, signal.SIGSTOP)], ids=["sleeps", "stopped"])
def test_a_hanging_worker_is_killed_and_replaced(hang: tuple[Any, int]) -> None:
    """A stopped process does not receive the signal of its own timer."""
    processes = Processes(at_once=1, max_seconds=5)
    try:
        first = processes(os.getpid)
        with pytest.raises(Unavailable, match="took longer than 5 s") as refused:
            processes(*hang)
        assert refused.value.details["retry_after_seconds"] == 3
        assert not is_running(first)
        assert processes(os.getpid) != first
    finally:
        processes.close()


def test_starting_a_worker_does_not_count_towards_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the start takes seconds."""
    monkeypatch.setattr(processes_module, "STARTED", f"import time; time.sleep(4); {processes_module.STARTED}")
    some = Processes(at_once=1, max_seconds=3)
    try:
        assert some(divmod, 7, 2) == (3, 1)
    finally:
        some.close()


def test_a_worker_that_dies_is_replaced(processes: Processes) -> None:
    with pytest.raises(Unavailable, match="was interrupted"):
        processes(os._exit, 1)
    alive = processes(os.getpid)
    os.kill(alive, signal.SIGKILL)  # while it stands idle, as by a server short of memory
    assert eventually(lambda: not is_running(alive))
    assert processes(divmod, 7, 2) == (3, 1), "nobody has to see the end of an idle one"


def test_running_and_waiting_calls_are_limited() -> None:
    processes = Processes(at_once=1, max_waiting=1, max_seconds=60, wait_seconds=60)
    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(processes, time.sleep, 60)
        assert eventually(lambda: bool(processes._busy))
        waits = pool.submit(processes, os.getpid)
        assert eventually(lambda: processes._waiting == 1)
        with pytest.raises(Unavailable, match="too many computations"):
            processes(os.getpid)
        processes.close()
        for one in (busy, waits):
            assert isinstance(one.exception(timeout=120), Unavailable)


def test_a_call_that_waits_too_long_is_refused_and_not_counted() -> None:
    processes = Processes(at_once=1, max_waiting=1, max_seconds=60, wait_seconds=0.05)
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(processes, time.sleep, 60)
        assert eventually(lambda: bool(processes._busy))
        for _ in range(2):
            with pytest.raises(Unavailable, match="too many computations"):
                processes(os.getpid)
        assert processes._waiting == 0
        processes.close()
        busy.exception(timeout=120)


def test_closing_kills_idle_and_busy_workers_and_refuses_calls() -> None:
    processes = Processes(at_once=2, max_seconds=60)
    idle = processes(os.getpid)
    with ThreadPoolExecutor(1) as pool:
        begun = threading.Event()
        busy = pool.submit(lambda: (begun.set(), processes(time.sleep, 60)))
        begun.wait()
        assert eventually(lambda: bool(processes._busy))
        pids = [one._child.pid for one in processes._busy]
        processes.close()
        assert isinstance(busy.exception(timeout=120), Unavailable)
    assert not any(is_running(pid) for pid in (idle, *pids))
    with pytest.raises(Unavailable):
        processes(os.getpid)


HANGING = """
import os, threading, time
from squinney.service import processes as processes_module
from squinney.service.processes import Processes
processes = Processes(at_once=2, max_seconds=2)
threading.Thread(target=lambda: processes(time.sleep, 60)).start()
print(processes(os.getpid), *(one._child.pid for one in [*processes._idle, *processes._busy]), flush=True)
time.sleep(60)
"""


def test_a_killed_parent_leaves_no_worker() -> None:
    with subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(set(pids)) == 2
        parent.kill()
    assert eventually(lambda: not any(is_running(pid) for pid in pids))
