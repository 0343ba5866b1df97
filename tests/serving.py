"""A `squinney serve` process with its own embedded MongoDB."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self


class Serving:
    """Start `serve` on a free port and wait until it prints its address; stop it with Ctrl-C at the end."""

    def __init__(self, data: Path, *arguments: str, **environment: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in ("MONGODB_URI", "PORT")}
        self.data = data
        # A file, not a pipe: a pipe that is not read is full after 64 KiB of log, and then every request blocks.
        self._log = data.with_name(f"{data.name}.log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "squinney.service.commands.main", "--data", str(data), "serve", *arguments],
                env={**inherited, "PORT": "0", "PYTHONUNBUFFERED": "1", "COLUMNS": "200", **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.url = self.wait_for(r"Squinney is at (http://\S+:\d+)")

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def said(self) -> str:
        """Everything that the process has printed so far."""
        return self._log.read_text()

    def wait_for(self, pattern: str, seconds: float = 300) -> str:
        """Wait until the pattern is printed; return its first group."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._process.poll() is None:
            if found := re.search(pattern, self.said):
                return found[1]
            time.sleep(0.02)
        self._process.kill()
        raise AssertionError(f"serve did not print {pattern}: {self.said}")

    def interrupt(self, sign: signal.Signals = signal.SIGINT) -> int:
        """Send Ctrl-C to the whole process group, as a terminal does; returns the exit code."""
        os.killpg(self._process.pid, sign)
        return self._process.wait(timeout=60)

    def send(self, sign: signal.Signals) -> None:
        """Send a signal to the process alone, as a supervisor does."""
        self._process.send_signal(sign)

    def wait(self) -> int:
        """Wait until it has ended; returns the exit code."""
        return self._process.wait(timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.interrupt()
