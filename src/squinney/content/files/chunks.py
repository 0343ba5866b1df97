"""A writer of GridFS files that sends one batch of chunks while the next is read and hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any

from bson.int64 import Int64
from pymongo.write_concern import WriteConcern

from squinney.content.files.documents import CHUNKS, FILES
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document

CHUNK_BYTES = 1020 * 1024
CHUNKS_A_BATCH = 4
SEND_SECONDS = 60


class ChunkWriter:
    """Writes one file. Readers can open it once `finish` has written its `files` document.

    Batches are acknowledged by one member only, which is faster. Before a node shows the file, its chunks are counted
    with a majority read, which detects a batch that was rolled back by a failover.
    """

    def __init__(self, db: Db, file_id: str, metadata: Mapping[str, Any], *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunks = db[CHUNKS].with_options(write_concern=WriteConcern(1))
        self._files = db[FILES].with_options(write_concern=WriteConcern("majority"))
        self._file_id = file_id
        self._metadata = metadata
        self._chunk_bytes = chunk_bytes
        self._pieces: list[bytes] = []
        self._batch: list[Document] = []
        self._number = 0
        self._length = 0
        self._digest = hashlib.sha256()
        self.wanted = chunk_bytes  # the bytes that complete the current chunk
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="chunks")
        self._sent: Future[None] | None = None

    def close(self) -> None:
        """Wait for the batch that is being sent, so that no chunk arrives after a clean-up."""
        self._sender.shutdown(wait=True, cancel_futures=True)

    def write(self, data: bytes) -> None:
        """Add bytes to the file; a piece of exactly `wanted` bytes is not copied."""
        self._digest.update(data)
        while data:
            piece, data = (data, b"") if len(data) <= self.wanted else (data[: self.wanted], data[self.wanted :])
            self._pieces.append(piece)
            self.wanted -= len(piece)
            if not self.wanted:
                self._end_chunk()

    def _end_chunk(self) -> None:
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._batch.append({"files_id": self._file_id, "n": self._number, "data": body})
        self._number += 1
        self._length += len(body)
        self._pieces, self.wanted = [], self._chunk_bytes
        if len(self._batch) == CHUNKS_A_BATCH:
            self._send()

    def _send(self) -> None:
        self._wait()
        batch, self._batch = self._batch, []
        self._sent = self._sender.submit(copy_context().run, self._insert, batch)

    def _insert(self, batch: list[Document]) -> None:
        with operation(SEND_SECONDS):
            self._chunks.insert_many(batch)

    def _wait(self) -> None:
        if self._sent is not None:
            self._sent.result()

    def finish(self) -> str:
        """Write the remaining chunks, then the `files` document; return the file's SHA-256."""
        if self._pieces:
            self._end_chunk()
        if self._batch:
            self._send()
        self._wait()
        sha256 = self._digest.hexdigest()
        file = {
            "_id": self._file_id,
            "filename": "",
            "chunkSize": self._chunk_bytes,
            "length": Int64(self._length),
            "uploadDate": datetime.now(UTC),
            "metadata": {**self._metadata, "sha256": sha256},
        }
        with operation(SEND_SECONDS):
            self._files.insert_one(file)
        return sha256
