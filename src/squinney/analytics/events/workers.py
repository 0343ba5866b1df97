"""Who stores an import's chunks: threads of this process at once, and further processes as soon as they are connected.

A process takes a second to start, in which this one has stored tens of thousands of lines, so nobody waits for it.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context, parent_process
from types import TracebackType
from typing import Self

from squinney.analytics.events.partitions import EventPartitions
from squinney.analytics.events.reading import Chunk
from squinney.analytics.events.storing import Counts, Job, Storer
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db

# While one thread parses, others wait for the server: so many keep both busy.
THREADS = 4
# One chunk to work on and one to go on with, so that a process need not wait for us.
CHUNKS_A_PROCESS = 2


@dataclass(frozen=True)
class Given:
    """A chunk that somebody stores, and who would if they died."""

    chunk: Chunk
    first_line: int
    storer: Storer
    future: Future[Counts]

    def counts(self) -> Counts:
        """What became of it, when that is known; what another process left undone is done here, under the same ids.

        Raises: `Unavailable`.
        """
        try:
            return self.future.result()
        except BrokenExecutor:
            return self.storer.store(self.chunk, self.first_line)


class ImportWorkers:
    """Stores chunks, up to `most` at a time; use it in a `with`."""

    def __init__(self, storer: Storer) -> None:
        self._storer = storer
        self._given = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="import")
        self._others = storer.job.options.processes - 1
        self._pool: ProcessPoolExecutor | None = None
        self._elsewhere: list[Future[Counts]] = []
        self._greetings: list[Future[bool]] = []
        self.most = THREADS + CHUNKS_A_PROCESS * self._others

    def _start(self) -> None:
        connect = partial(_connect, self._storer.job)
        self._pool = ProcessPoolExecutor(self._others, mp_context=get_context("spawn"), initializer=connect)
        self._greetings = [self._pool.submit(_is_ready) for _ in range(self._others)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._threads.shutdown(cancel_futures=error is not None)
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def store(self, chunk: Chunk, first_line: int) -> Given:
        """Give a chunk to somebody who is free. One that continues a line is ours, and so are the first ones."""
        storer = self._storer
        self._given += 1
        if storer.continues_a_line:
            self._storer = replace(storer, continues_a_line=False)
        elif (future := self._given_elsewhere(chunk, first_line)) is not None:
            return Given(chunk, first_line, storer, future)
        return Given(chunk, first_line, storer, self._threads.submit(storer.store, chunk, first_line))

    def _given_elsewhere(self, chunk: Chunk, first_line: int) -> Future[Counts] | None:
        if self._others and self._given == THREADS:  # it is not a short log
            self._start()
        self._elsewhere = [one for one in self._elsewhere if not one.done()]
        connected = sum(one.done() and not one.exception() for one in self._greetings)
        if self._pool is None or len(self._elsewhere) >= connected * CHUNKS_A_PROCESS:
            return None
        try:
            future = self._pool.submit(_store, chunk, first_line)
        except BrokenExecutor:
            self._greetings = []
            return None
        self._elsewhere.append(future)
        return future


# ---- in the other processes ----

_own: dict[str, Storer] = {}


def _connect(job: Job) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    db: Db = client_for(job.options.uri or "")[job.database]
    _own["storer"] = Storer(EventPartitions(db), job)


def _end_with_parent() -> None:
    """A pool's processes would outlive a parent that was killed, and wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _is_ready() -> bool:
    return True


def _store(chunk: Chunk, first_line: int) -> Counts:
    return _own["storer"].store(chunk, first_line)
