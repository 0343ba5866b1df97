"""Several logs in one stream, as `cat a b` makes it: where one begins that is known, it goes on under its own name.

A log is known by its first kilobyte. So every line is compared with the first lines of the logs that have one; where it
may be such a line, what follows is compared with the rest of what is known of that log. This is for pipes alone: two
servers that serve nothing but the same probes have the same lines, and a file is one log.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from squinney.analytics.events import sources
from squinney.analytics.events.documents import Import
from squinney.analytics.events.log_content import CHAIN_BYTES, DIGEST_BYTES, Content
from squinney.analytics.events.reading import HEAD_BYTES, Chunk, chunks, read_head
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db

MOST_TRIES = 1_000  # a log of nothing but such lines would be looked through again from each of them


class Pushback(io.RawIOBase):
    """A stream that takes back what was read too much of it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._back = b""

    def push(self, more: bytes) -> None:
        """Give it back: it is read again first."""
        self._back = more + self._back

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """What was given back, or what comes."""
        size = len(buffer)
        found, self._back = self._back[:size] or self._stream.read(size), self._back[size:]
        buffer[: len(found)] = found
        return len(found)


class Joined:
    """Reads a stream up to the first line of another log that is known."""

    def __init__(self, db: Db, stream: BinaryIO, source: Import) -> None:
        self._offset = source["offset"]
        self._stream = Pushback(stream)
        self._known = _known_logs(db, source["_id"])
        every = (one for alike in self._known.values() for one in alike)
        self._first_lines = {bytes(one["chain"]["digests"][:DIGEST_BYTES]) for one in every}
        self._tries = MOST_TRIES
        self.next_log: BinaryIO | None = None

    def chunks(self, **options: Any) -> Iterator[Chunk]:
        """Whole lines; `next_log` is then the rest of the stream, if it is another log."""
        stream = cast(BinaryIO, self._stream)
        passed_over = -1 if self._offset else 0  # where a line is that begins no other log
        while True:
            behind: list[bytes] = []
            begin = self._offset

            def ends_at(lines: bytes, offset: int, passed_over: int = passed_over) -> int | None:
                return self._may_begin(lines, offset, passed_over)

            for chunk in chunks(stream, begin, ends_at=ends_at, behind=behind, **options):
                self._offset = chunk.end
                yield chunk
            if not behind:
                return
            self._stream.push(behind[0])
            if self._is_known_from_here():
                self.next_log = stream
                return
            passed_over = self._offset
            self._tries -= 1
            if not self._tries:
                self._first_lines = set()

    def _may_begin(self, lines: bytes, offset: int, passed_over: int) -> int | None:
        """Where in these lines another log may begin."""
        if not self._first_lines:
            return None
        at = 0
        for line in lines.split(b"\n")[:-1]:
            if hashlib.sha256(line).digest()[:DIGEST_BYTES] in self._first_lines and offset + at != passed_over:
                return at
            at += len(line) + 1
        return None

    def _is_known_from_here(self) -> bool:
        ahead = read_head(cast(BinaryIO, self._stream), CHAIN_BYTES)
        self._stream.push(ahead)
        content = Content(io.BytesIO(ahead))
        return any(content.is_continuation_of(one) for one in self._known.get(sources.head_hash(content.head), ()))


def _known_logs(db: Db, but: str) -> dict[str, list[Import]]:
    """The logs that are known by a whole kilobyte, by its hash; less could be a chance. No log is within itself."""
    with operation(60, reads_only=True):
        found = list(db["imports"].find({"head_length": HEAD_BYTES, "_id": {"$ne": but}}))
    known: dict[str, list[Import]] = {}
    for one in cast(list[Import], found):
        if one.get("chain") and one["chain"]["digests"]:
            known.setdefault(one["head_hash"], []).append(one)
    return known
