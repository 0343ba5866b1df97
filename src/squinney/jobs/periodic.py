"""Runs declared jobs in this process, each every so many seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from squinney.errors import SquinneyError
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job

log = logging.getLogger(__name__)


class Periodic:
    """One thread that runs jobs when they are due; every job is safe when other processes run it too."""

    def __init__(self, db: Db, jobs: Sequence[Job]) -> None:
        self._db = db
        self._due = {job: time.monotonic() for job in jobs}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the job at hand and end."""
        self._stopping.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._stopping.wait(0.5):
            for job, due in self._due.items():
                if time.monotonic() >= due and not self._stopping.is_set():
                    self._run(job)
                    self._due[job] = time.monotonic() + job.every_seconds

    def _run(self, job: Job) -> None:
        try:
            job.run(self._db)
        except SquinneyError as error:
            log.warning("job %s: %s", job.name, error.message)
        except Exception:
            log.exception("job %s failed", job.name)
