"""The workers that store an import's chunks: threads of this process first, then additional processes.

A process takes about a second to start. Meanwhile the threads store tens of thousands of lines, so the import does not
wait for it.
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

# While one thread parses, others wait for MongoDB; this many keep both busy.
THREADS = 4
# One chunk in progress and one queued, so that a process never waits for the next chunk.
CHUNKS_A_PROCESS = 2


@dataclass(frozen=True)
class PendingChunk:
    """A chunk that a worker is storing. `storer` stores it again if the worker's process dies."""

    chunk: Chunk
    first_line: int
    storer: Storer
    future: Future[Counts]

    def counts(self) -> Counts:
        """Wait for the chunk and return its counts; if its process died, store the chunk here under the same ids."""
        try:
            return self.future.result()
        except BrokenExecutor:
            return self.storer.store(self.chunk, self.first_line)


class ImportWorkers:
    """A context manager that stores up to `max_pending` chunks at the same time."""

    def __init__(self, storer: Storer) -> None:
        self._storer = storer
        self._chunks = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="import")
        self._pool_size = storer.job.options.processes - 1
        self._pool: ProcessPoolExecutor | None = None
        self._in_pool: list[Future[Counts]] = []
        self._started: list[Future[int]] = []  # done when a process is connected
        self.max_pending = THREADS + CHUNKS_A_PROCESS * self._pool_size

    def _start_pool(self) -> None:
        connect = partial(_connect, self._storer.job)
        self._pool = ProcessPoolExecutor(self._pool_size, mp_context=get_context("spawn"), initializer=connect)
        self._started = [self._pool.submit(os.getpid) for _ in range(self._pool_size)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._threads.shutdown(cancel_futures=error is not None)
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def store(self, chunk: Chunk, first_line: int) -> PendingChunk:
        """Store a chunk in a free process or in a thread.

        Threads store the first chunks, and a chunk that continues an unfinished line.
        """
        storer = self._storer
        self._chunks += 1
        if storer.continues_a_line:
            self._storer = replace(storer, continues_a_line=False)
        elif (future := self._submit_to_pool(chunk, first_line)) is not None:
            return PendingChunk(chunk, first_line, storer, future)
        return PendingChunk(chunk, first_line, storer, self._threads.submit(storer.store, chunk, first_line))

    def _submit_to_pool(self, chunk: Chunk, first_line: int) -> Future[Counts] | None:
        if self._pool_size and self._chunks == THREADS:  # the log is long enough for more processes
            self._start_pool()
        self._in_pool = [future for future in self._in_pool if not future.done()]
        ready = sum(future.done() and not future.exception() for future in self._started)
        if self._pool is None or len(self._in_pool) >= ready * CHUNKS_A_PROCESS:
            return None
        try:
            future = self._pool.submit(_store, chunk, first_line)
        except BrokenExecutor:
            self._started = []
            return None
        self._in_pool.append(future)
        return future


# ---- in the other processes ----

_process_storer: dict[str, Storer] = {}


def _connect(job: Job) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    db: Db = client_for(job.options.uri or "")[job.database]
    _process_storer["storer"] = Storer(EventPartitions(db), job)


def _end_with_parent() -> None:
    """Exit when the parent process is killed; otherwise the pool's processes would wait for work forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _store(chunk: Chunk, first_line: int) -> Counts:
    return _process_storer["storer"].store(chunk, first_line)
