"""`Prover`: the proof that a site runs for its visitors, in another process; all visitors watch the same one."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from squinney.mongo.schema import Document
from squinney.service.proving.progress import PROGRESS, Progress
from squinney.service.proving.runner import MAX_STOPPING_SECONDS
from squinney.service.proving.schedules.player import SchedulePlayer
from squinney.service.proving.scratch import drop_leftovers
from squinney.service.proving.subjects import subject_named

log = logging.getLogger(__name__)

COMMAND = [sys.executable, "-m", "squinney.service.proving.runner"]
LOCK = "proof.lock"
INTERRUPTED = "the process of this proof was ended: start it again"


class Prover:
    """Starts proofs on the embedded MongoDB, one at a time, and knows how far the last one is. It is thread-safe."""

    def __init__(
        self,
        client: MongoClient[Document],
        uri: str,
        folder: Path,
        *,
        seconds: float,
        packages: Sequence[str] = (),
    ) -> None:
        self.seconds = seconds
        self.schedules = SchedulePlayer(uri)
        self._client = client
        self._uri = uri
        self._lock_file = folder / LOCK
        self._packages = list(packages)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._is_closed = False
        self.progress: Progress | None = None
        self.changes = 0  # how often `progress` was replaced
        self._drop_leftovers()

    @property
    def is_running(self) -> bool:
        """Whether a proof is in progress."""
        return self.progress is not None and not self.progress.is_over

    def start(self, name: str) -> bool:
        """Start the proof of a subject; return whether it did: if one is running, visitors watch that one.

        Raises: `NotFound` if there is no such subject.
        """
        subject = subject_named(name, self._packages)
        with self._lock:
            # guard: visitors who start a proof at the same time watch one
            if self.is_running or self._is_closed:
                return False
            self._show(Progress(name, subject.title, [], self.seconds))
        if self._reader:
            self._reader.join()
        self._process = subprocess.Popen(  # noqa: S603
            [*COMMAND, name, str(self.seconds), str(self._lock_file)],
            env={**os.environ, "MONGODB_URI": self._uri, "SQUINNEY_SYSTEMS": ",".join(self._packages)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches only the site
        )
        self._reader = threading.Thread(target=self._read, args=[self._process], daemon=True, name="prover")
        self._reader.start()
        return True

    def kill(self) -> bool:
        """Kill a worker of each lane now; return whether there was a proof."""
        process = self._process
        if process is None or process.stdin is None or not self.is_running:
            return False
        with suppress(OSError, ValueError):  # it has just ended
            process.stdin.write(b"kill\n")
            process.stdin.flush()
            return True
        return False

    def close(self) -> None:
        """End the running proof, and start no more."""
        with self._lock:
            self._is_closed = True
        process = self._process
        if process is None or process.poll() is not None:
            return
        with suppress(OSError):
            assert process.stdin
            process.stdin.close()
        try:
            process.wait(MAX_STOPPING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        if self._reader:
            self._reader.join(MAX_STOPPING_SECONDS)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout
        for line in process.stdout:
            self._show(PROGRESS.validate_json(line))
        process.wait()
        with suppress(OSError):
            assert process.stdin
            process.stdin.close()
        # Its workers drop them too, unless they were killed as well.
        self._drop_leftovers()
        progress = self.progress
        if progress is not None and not progress.is_over:
            progress.state, progress.message = "failed", INTERRUPTED
            self._show(progress)

    def _show(self, progress: Progress) -> None:
        self.progress = progress
        self.changes += 1

    def _drop_leftovers(self) -> None:
        try:
            drop_leftovers(self._client)
        except PyMongoError as error:
            log.warning("the databases of ended proofs cannot be dropped: %s", type(error).__name__)
