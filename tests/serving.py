"""A `squinney serve` process with an embedded MongoDB of its own."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self


class Serving:
    """Starts `serve` on a free port and waits for the line that says where; ends it as Ctrl-C does."""

    def __init__(self, data: Path, *arguments: str, **environment: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in ("MONGODB_URI", "PORT")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "squinney.cli.main", "--data", str(data), "serve", *arguments],
            env={**inherited, "PORT": "0", "PYTHONUNBUFFERED": "1", "COLUMNS": "200", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.data = data
        self.said = ""
        self.url = self._wait_for_url()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def _wait_for_url(self, seconds: float = 60) -> str:
        assert self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            until = time.monotonic() + seconds
            while time.monotonic() < until and selector.select(until - time.monotonic()):
                line = self._process.stdout.readline()
                self.said += line
                if found := re.search(r"http://\S+:\d+", line):
                    return found[0]
                if not line:
                    break
        self._process.kill()
        raise AssertionError(f"serve did not come up: {self.said}")

    def interrupt(self, sign: signal.Signals = signal.SIGINT) -> int:
        """Send Ctrl-C to the whole process group, as a terminal does; returns the exit code."""
        os.killpg(self._process.pid, sign)
        rest, _ = self._process.communicate(timeout=60)
        self.said += rest
        return self._process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.interrupt()
