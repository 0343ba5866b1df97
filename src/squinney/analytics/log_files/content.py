"""A log's content: decides whether it continues a known source, before its lines are read."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Mapping
from typing import Any, BinaryIO, TypedDict, cast

from squinney.analytics.log_files.chunks import CHUNK_BYTES, Chunk, CutShort, decompressed, read, read_head

TAIL_BYTES = 1_024
CHAIN_BYTES = 65_536
CHAIN_LINES = 1_000
DIGEST_BYTES = 4


class Chain(TypedDict):
    """Identifies a log's first lines: their length in bytes, and a digest for each line."""

    bytes: int
    digests: bytes


class Tail(TypedDict):
    """Identifies the last bytes before a checkpoint."""

    length: int
    hash: str


class LogContent:
    """The decompressed content of a file or stream, without the NUL bytes that a truncated log may begin with.

    A stream that cannot seek is copied to a temporary file until `read_from` is called, so that it can be compared.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._spool = None if raw.seekable() else _Spool(raw)
        self._raw: Any = self._spool or raw
        self._base: int = self._raw.tell()
        self._hole = 0
        self._open()
        if not self.compressed:
            self._hole = self._length_of_hole()
            self._seek(0)
        self.head = read_head(self._stream)

    def _open(self) -> None:
        self._raw.seek(self._base)
        self._stream, self.compressed = decompressed(cast(BinaryIO, self._raw))

    def _length_of_hole(self) -> int:
        """Return the number of leading NUL bytes.

        A server that keeps writing at its old position in a truncated file leaves a hole, which reads as NUL bytes.
        """
        length = 0
        while (more := self._stream.read(CHUNK_BYTES)) and not more.strip(b"\0"):
            length += len(more)
        return length + len(more) - len(more.lstrip(b"\0"))

    def _seek(self, offset: int) -> None:
        if not self.compressed:
            # guard: a growing log continues from its checkpoint
            self._stream.seek(self._base + self._hole + offset)
            return
        self._open()
        while offset and (skipped := read(self._stream, min(offset, CHUNK_BYTES))):
            offset -= len(skipped)

    def read_from(self, offset: int) -> BinaryIO:
        """Return the content from `offset` on as a stream; after this call the content cannot be compared any more."""
        try:
            self._seek(offset)
        except CutShort:
            return io.BytesIO()
        if self._spool:
            self._spool.stop_keeping()
        return self._stream

    def _bytes_at(self, offset: int, length: int) -> bytes:
        try:
            self._seek(offset)
        except CutShort:
            return b""
        return read_head(self._stream, length)

    def head_is_unchanged(self) -> bool:
        """Return True if the file still begins with the head that was read, so it was not truncated meanwhile."""
        file = getattr(self._raw, "raw", self._raw)
        if self.compressed or not isinstance(file, io.FileIO):  # only a file on disk can be truncated
            return True
        return os.pread(file.fileno(), len(self.head), self._base + self._hole) == self.head

    def is_continuation_of(self, source: Mapping[str, Any]) -> bool:
        """Return True if this can be the source's log: first lines and bytes before the checkpoint are the same.

        The log may be longer than the source, or shorter.
        """
        if not self.begins_like(source):
            return False
        tail = source.get("tail")
        if not tail:
            return True
        before = self._bytes_at(source["offset"] - tail["length"], tail["length"])
        return bool(len(before) < tail["length"] or _digest(before) == tail["hash"])

    def begins_like(self, source: Mapping[str, Any]) -> bool:
        """Return True if the first lines are those of the source, as far as both have any."""
        if not (chain := source.get("chain")):
            return True
        digests = self.chain()["digests"]
        common = min(len(digests), len(chain["digests"]))
        return bool(digests[:common] == chain["digests"][:common])

    def chain(self) -> Chain:
        """Return the digests of the first lines."""
        start = self._bytes_at(0, CHAIN_BYTES)
        whole = start[: start.rfind(b"\n") + 1]
        return chained(None, Chunk(0, len(whole), whole))


def chained(chain: Chain | None, chunk: Chunk) -> Chain:
    """Return the chain extended by the lines of one more chunk. Each digest covers all lines up to its own.

    The chain ends at `CHAIN_LINES` lines or `CHAIN_BYTES` bytes, or at a line that is too long or has no line end.
    """
    known = chain or {"bytes": 0, "digests": b""}
    if chunk.offset != known["bytes"] or chunk.too_long or not chunk.terminated:
        return known
    length, digests = known["bytes"], bytearray(known["digests"])
    for line in chunk.lines.split(b"\n")[:-1]:
        if length + len(line) + 1 > CHAIN_BYTES or len(digests) >= CHAIN_LINES * DIGEST_BYTES:
            break
        length += len(line) + 1
        digests += hashlib.sha256(bytes(digests[-DIGEST_BYTES:]) + line).digest()[:DIGEST_BYTES]
    return {"bytes": length, "digests": bytes(digests)}


def tail_of(chunk: Chunk) -> Tail | None:
    """Return the length and hash of a chunk's last bytes, which are those before the next checkpoint."""
    end = chunk.lines[-TAIL_BYTES:]
    return None if chunk.too_long else {"length": len(end), "hash": _digest(end)}


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


class _Spool(io.RawIOBase):
    """A seekable copy of a stream that cannot seek. It copies what is read until `stop_keeping` is called."""

    def __init__(self, live: BinaryIO) -> None:
        self._live = live
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this
        self._keeps = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._kept.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, reading the stream up to there if necessary."""
        if whence == os.SEEK_CUR:
            offset += self._kept.tell()
        self._kept.seek(0, os.SEEK_END)
        while self._kept.tell() < offset and (more := self._live.read(min(CHUNK_BYTES, offset - self._kept.tell()))):
            self._kept.write(more)
        return self._kept.seek(min(offset, self._kept.tell()))

    def readinto(self, buffer: Any) -> int:
        """Read the kept bytes first, then the live stream."""
        portion = self._kept.read(len(buffer))
        if not portion:
            # As soon as any bytes are available, because a pipe may be slow.
            portion = getattr(self._live, "read1", self._live.read)(len(buffer))
            if self._keeps:
                self._kept.write(portion)
        buffer[: len(portion)] = portion
        return len(portion)

    def stop_keeping(self) -> None:
        """Copy nothing from here on."""
        self._keeps = False
