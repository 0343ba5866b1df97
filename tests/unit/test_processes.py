"""Work in other processes: what hangs, dies or comes in crowds holds nobody up and leaves nothing running."""

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
    """Whether there is such a process; one that has ended and nobody asks after is not."""
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path("/proc").is_dir() else True
    return False


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it holds within half a minute."""
    until = time.monotonic() + 30
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


def test_one_process_does_what_comes_and_gives_way_to_others(processes: Processes) -> None:
    first = processes(os.getpid)
    assert first not in (os.getpid(), os.getppid())
    assert processes(os.getpid) == first
    assert processes(os.nice, 0) == os.nice(0) + 10
    assert processes(os.getsid, 0) == first, "Ctrl-C of our terminal would reach it"


def test_what_a_function_raises_and_prints_harms_nothing(
    processes: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ZeroDivisionError):
        processes(divmod, 1, 0)
    assert processes(print, "\n") is None
    assert processes(divmod, 7, 2) == (3, 1)


@pytest.mark.parametrize("hang", [(time.sleep, 60), (signal.raise_signal, signal.SIGSTOP)], ids=["sleeps", "stopped"])
def test_what_hangs_is_ended_with_one_error_and_another_takes_its_place(hang: tuple[Any, int]) -> None:
    """One that is stopped does not hear its own clock."""
    processes = Processes(at_once=1, most_seconds=3)
    try:
        first = processes(os.getpid)
        with pytest.raises(Unavailable, match="took longer than 3 s") as refused:
            processes(*hang)
        assert refused.value.details["retry_after_seconds"] == 3
        assert not is_running(first)
        assert processes(os.getpid) != first
    finally:
        processes.close()


def test_the_start_of_a_process_takes_none_of_the_time_of_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it takes seconds."""
    monkeypatch.setattr(processes_module, "STARTED", f"import time; time.sleep(1.5); {processes_module.STARTED}")
    some = Processes(at_once=1, most_seconds=1)
    try:
        assert some(divmod, 7, 2) == (3, 1)
    finally:
        some.close()


def test_what_dies_is_one_error_and_another_takes_its_place(processes: Processes) -> None:
    with pytest.raises(Unavailable, match="was interrupted"):
        processes(os._exit, 1)
    alive = processes(os.getpid)
    os.kill(alive, signal.SIGKILL)  # while it stands idle, as by a server short of memory
    assert eventually(lambda: not is_running(alive))
    assert processes(divmod, 7, 2) == (3, 1), "nobody has to see the end of an idle one"


def test_so_many_work_so_many_wait_and_the_rest_is_refused() -> None:
    processes = Processes(at_once=1, most_waiting=1, most_seconds=60, wait_seconds=60)
    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(processes, time.sleep, 60)
        assert eventually(lambda: bool(processes._busy))
        waits = pool.submit(processes, os.getpid)
        assert eventually(lambda: processes._waiting == 1)
        with pytest.raises(Unavailable, match="too many computations"):
            processes(os.getpid)
        processes.close()
        for one in (busy, waits):
            assert isinstance(one.exception(timeout=30), Unavailable)


def test_who_waits_too_long_is_refused_and_counts_no_more() -> None:
    processes = Processes(at_once=1, most_waiting=1, most_seconds=60, wait_seconds=0.05)
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(processes, time.sleep, 60)
        assert eventually(lambda: bool(processes._busy))
        for _ in range(2):
            with pytest.raises(Unavailable, match="too many computations"):
                processes(os.getpid)
        assert processes._waiting == 0
        processes.close()
        busy.exception(timeout=30)


def test_closing_ends_the_idle_and_the_busy_and_nothing_begins_after_it() -> None:
    processes = Processes(at_once=2, most_seconds=60)
    idle = processes(os.getpid)
    with ThreadPoolExecutor(1) as pool:
        begun = threading.Event()
        busy = pool.submit(lambda: (begun.set(), processes(time.sleep, 60)))
        begun.wait()
        assert eventually(lambda: bool(processes._busy))
        pids = [one._child.pid for one in processes._busy]
        processes.close()
        assert isinstance(busy.exception(timeout=30), Unavailable)
    assert not any(is_running(pid) for pid in (idle, *pids))
    with pytest.raises(Unavailable):
        processes(os.getpid)


HANGING = """
import os, threading, time
from squinney.service import processes as processes_module
from squinney.service.processes import Processes
processes = Processes(at_once=2, most_seconds=2)
threading.Thread(target=lambda: processes(time.sleep, 60)).start()
print(processes(os.getpid), *(one._child.pid for one in [*processes._idle, *processes._busy]), flush=True)
time.sleep(60)
"""


def test_a_parent_that_is_killed_leaves_neither_idle_nor_hanging_ones() -> None:
    with subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(set(pids)) == 2
        parent.kill()
    assert eventually(lambda: not any(is_running(pid) for pid in pids))
