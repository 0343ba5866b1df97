"""A log's content, which can be looked at anywhere before it is read: is it one that is known?"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from typing import Any, BinaryIO, cast

from squinney.analytics.events.documents import Chain, Import, Tail
from squinney.analytics.events.reading import CHUNK_BYTES, Chunk, CutShort, decompressed, read, read_head

TAIL_BYTES = 1_024
CHAIN_BYTES = 65_536
CHAIN_LINES = 1_000
DIGEST_BYTES = 4


class Content:
    """What is in a file or stream: decompressed, and without the hole of NULs that a cut log may begin with.

    A stream that cannot go back is kept on disk until `begin_at`, so that it can be looked at all the same.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._spool = None if raw.seekable() else _Spool(raw)
        self._raw: Any = self._spool or raw
        self._base: int = self._raw.tell()
        self._hole = 0
        self._open()
        if not self.compressed:
            self._hole = self._length_of_hole()
            self._go_to(0)
        self.head = read_head(self._stream)

    def _open(self) -> None:
        self._raw.seek(self._base)
        self._stream, self.compressed = decompressed(cast(BinaryIO, self._raw))

    def _length_of_hole(self) -> int:
        """Where a server goes on writing at its old place in a file that was cut, what is before it reads as NULs."""
        length = 0
        while (more := self._stream.read(CHUNK_BYTES)) and not more.strip(b"\0"):
            length += len(more)
        return length + len(more) - len(more.lstrip(b"\0"))

    def _go_to(self, offset: int) -> None:
        if not self.compressed:
            self._stream.seek(self._base + self._hole + offset)
            return
        self._open()
        while offset and (skipped := read(self._stream, min(offset, CHUNK_BYTES))):
            offset -= len(skipped)

    def begin_at(self, offset: int) -> BinaryIO:
        """The content from there on; nothing before can be looked at any more."""
        try:
            self._go_to(offset)
        except CutShort:
            return io.BytesIO()
        if self._spool:
            self._spool.forget_the_past()
        return self._stream

    def _at(self, offset: int, length: int) -> bytes:
        try:
            self._go_to(offset)
        except CutShort:
            return b""
        return read_head(self._stream, length)

    def is_still_there(self) -> bool:
        """Whether nobody has cut the log since its head was read: then what was read until now is of that log."""
        if self._spool or self.compressed:
            return True
        try:
            descriptor = self._raw.fileno()
        except OSError:  # nothing on disk
            return True
        return os.pread(descriptor, len(self.head), self._base + self._hole) == self.head

    def is_continuation_of(self, source: Import) -> bool:
        """Whether this may be the same log, grown or cut: its first lines are, and what is before the checkpoint."""
        if (chain := source.get("chain")) and not self._begins_like(chain):
            return False
        tail = source.get("tail")
        if not tail:
            return True
        found = self._at(source["offset"] - tail["length"], tail["length"])
        return len(found) < tail["length"] or _digest(found) == tail["hash"]

    def _begins_like(self, chain: Chain) -> bool:
        mine = self.chain()["digests"]
        common = min(len(mine), len(chain["digests"]))
        return mine[:common] == chain["digests"][:common]

    def chain(self) -> Chain:
        """The digests of the first lines."""
        start = self._at(0, CHAIN_BYTES)
        whole = start[: start.rfind(b"\n") + 1]
        return chained(None, Chunk(0, len(whole), whole))


def chained(chain: Chain | None, chunk: Chunk) -> Chain:
    """The digests of a log's first lines, each over all lines up to it, with those of one more chunk.

    They end at a number of lines and of bytes, and at a line that was taken without its end.
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
    """How the end of a chunk, which is what is before the checkpoint behind it, is known again."""
    end = chunk.lines[-TAIL_BYTES:]
    return None if chunk.too_long else {"length": len(end), "hash": _digest(end)}


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


class _Spool(io.RawIOBase):
    """A stream that can go back, until it is told to forget what it has read."""

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
        """Go to a place, reading up to it where it is not known yet."""
        if whence == os.SEEK_CUR:
            offset += self._kept.tell()
        self._kept.seek(0, os.SEEK_END)
        while self._kept.tell() < offset and (more := self._live.read(min(CHUNK_BYTES, offset - self._kept.tell()))):
            self._kept.write(more)
        return self._kept.seek(min(offset, self._kept.tell()))

    def readinto(self, buffer: Any) -> int:
        """What was kept first, then what comes."""
        found = self._kept.read(len(buffer))
        if not found:
            found = _some(self._live, len(buffer))
            if self._keeps:
                self._kept.write(found)
        buffer[: len(found)] = found
        return len(found)

    def forget_the_past(self) -> None:
        """Keep nothing more."""
        self._keeps = False


def _some(live: Any, size: int) -> bytes:
    """Up to `size` bytes, as soon as there are any: a pipe may be slow."""
    return bytes(live.read1(size) if hasattr(live, "read1") else live.read(size))
