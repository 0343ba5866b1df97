"""Sources: recognizes a log by the beginning of its content, never by its name or inode.

A source stores the length and hash of its head. A file whose first bytes have the same hash continues the source: a
rotated copy, a renamed file, or the same log compressed. The head of a young file grows with it, up to `HEAD_BYTES`.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from pymongo.errors import DuplicateKeyError

from squinney.analytics.errors import ImportRunning
from squinney.analytics.events.documents import Import
from squinney.analytics.events.log_content import CHAIN_BYTES, DIGEST_BYTES, Content
from squinney.analytics.events.reading import HEAD_BYTES, Chunk, chunks, read_head
from squinney.clock import Clock
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document

FORGETTING = "forgetting"
MOST_CANDIDATES = 1_000  # limits how often a stream is compared, if most of its lines look like the start of a log


def source_id(content: bytes) -> str:
    """Return the id of a source: 16 hexadecimal digits of the hash of its head or of its given name."""
    return hashlib.sha256(content).hexdigest()[:16]


def event_id(source: str, offset: int) -> str:
    """Return the id of the event whose line begins at this byte; ids sort in the order of the file."""
    return f"{source}-{offset:012x}"


def offset_in(event_id: str) -> int:
    """Return the byte at which the event's line begins."""
    return int(event_id.rpartition("-")[2], 16)


def source_of(event_id: str) -> str:
    """Return the source of an imported event, or an empty string for a recorded event."""
    return str(event_id).rpartition("-")[0]


def find(db: Db, head: bytes, name: str | None) -> list[Import]:
    """Return the source with the given name, or the sources whose head matches, the longest head first."""
    if name is not None:
        named = db["imports"].find_one({"_id": source_id(name.encode())})
        return [cast(Import, named)] if named else []
    lengths = [length for length in db["imports"].distinct("head_length") if 0 < length <= len(head)]
    hashes = [head_hash(head[:length]) for length in lengths]
    found = db["imports"].find({"head_hash": {"$in": hashes}}).sort("head_length", -1)
    return cast(list[Import], sorted(found, key=lambda source: (-source["head_length"], -source["offset"])))


def begin(db: Db, content: Content, *, name: str | None, title: str, site: str, clock: Clock) -> Import:
    """Return the source of a log's content, creating it if it is new, and extend its stored head.

    Atomic: one insert, or one update.
    After a crash: the source exists, and nothing of it is imported yet.
    Raises: `ImportRunning` if another import continued the source at the same moment, or if the log was truncated
    while it was compared.
    """
    head = content.head
    similar = find(db, head, name)
    source = next((one for one in similar if name or content.is_continuation_of(one)), None)
    if source is not None:
        _refuse_forgotten(source)
        if name is None and source["head_length"] < len(head) and not _grow(db, source, head):
            message = "another process is importing this source, or a log that began with the same lines; try again"
            raise ImportRunning(message)
        return source
    if not content.head_is_unchanged():
        raise ImportRunning("the log was truncated while it was compared with known sources; try again")
    source = _new(head, name, title, site, clock)
    if similar:  # the id of this head is taken by another log
        source["_id"] = source_id(head + content.chain()["digests"])
    try:
        db["imports"].insert_one(cast(Document, source))
    except DuplicateKeyError:  # another process created it at the same moment
        source = cast(Import, db["imports"].find_one({"_id": source["_id"]}))
    return source


def _refuse_forgotten(source: Import) -> None:
    if source["state"] == FORGETTING:
        message = f"{source['name']} is being forgotten; finish with `squinney analytics forget {source['_id']}`"
        raise ImportRunning(message)


def _grow(db: Db, source: Import, head: bytes) -> bool:
    """Store the longer head; return False if another import, maybe of another log, changed it first."""
    grown: Document = {"head_length": len(head), "head_hash": head_hash(head)}
    unchanged = {"_id": source["_id"], "head_length": source["head_length"]}
    return db["imports"].update_one(unchanged, {"$set": grown}).matched_count == 1


def _new(head: bytes, name: str | None, title: str, site: str, clock: Clock) -> Import:
    return {
        "_id": source_id(head if name is None else name.encode()),
        "name": title,
        "site": site,
        "format": "",
        "head_length": len(head) if name is None else 0,
        "head_hash": head_hash(head) if name is None else "",
        "offset": 0,
        "lines": 0,
        "stored": 0,
        "rejected": 0,
        "blank": 0,
        "state": "running",
        "updated_at": clock(),
    }


def head_hash(head: bytes) -> str:
    """Return the hash by which a log with this head is found."""
    return hashlib.sha256(head[:HEAD_BYTES]).hexdigest()


# ---- several logs in one stream ----


class Pushback(io.RawIOBase):
    """A stream to which bytes can be returned; they are read again first."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._pushed = b""

    def push(self, content: bytes) -> None:
        """Return bytes to the front of the stream."""
        self._pushed = content + self._pushed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the returned bytes first, then the stream."""
        size = len(buffer)
        found, self._pushed = self._pushed[:size] or self._stream.read(size), self._pushed[size:]
        buffer[: len(found)] = found
        return len(found)


class JoinedLogs:
    """Reads a stream of several logs, as from `cat a b`, up to the first line of another known log.

    Each line is compared with the first lines of the known logs. At a match, the bytes after it are compared with
    everything stored about that log. This is only for pipes: a file is always one log, because two servers that get
    nothing but the same health checks write the same lines.
    """

    def __init__(self, db: Db, stream: BinaryIO, source: Import) -> None:
        self._offset = source["offset"]
        self._stream = Pushback(stream)
        self._known = _known_logs(db, source["_id"])
        every = (one for logs in self._known.values() for one in logs)
        self._first_lines = {bytes(one["chain"]["digests"][:DIGEST_BYTES]) for one in every}
        self._candidates_left = MOST_CANDIDATES
        self.next_log: BinaryIO | None = None

    def chunks(self, **options: Any) -> Iterator[Chunk]:
        """Yield whole lines; afterwards `next_log` is the rest of the stream, if it is another log."""
        stream = cast(BinaryIO, self._stream)
        # The offset of a line that was compared already and begins no known log.
        no_start = -1 if self._offset else 0
        while True:
            unread: list[bytes] = []
            begin = self._offset

            def find_stop(lines: bytes, offset: int, no_start: int = no_start) -> int | None:
                return self._possible_start(lines, offset, no_start)

            for chunk in chunks(stream, begin, find_stop=find_stop, unread=unread, **options):
                self._offset = chunk.end
                yield chunk
            if not unread:
                return
            self._stream.push(unread[0])
            if self._is_known_from_here():
                self.next_log = stream
                return
            no_start = self._offset
            self._candidates_left -= 1
            if not self._candidates_left:
                self._first_lines = set()

    def _possible_start(self, lines: bytes, offset: int, no_start: int) -> int | None:
        """Return the index of the first line that may begin another log."""
        if not self._first_lines:
            return None
        at = 0
        for line in lines.split(b"\n")[:-1]:
            if hashlib.sha256(line).digest()[:DIGEST_BYTES] in self._first_lines and offset + at != no_start:
                return at
            at += len(line) + 1
        return None

    def _is_known_from_here(self) -> bool:
        ahead = read_head(cast(BinaryIO, self._stream), CHAIN_BYTES)
        self._stream.push(ahead)
        content = Content(io.BytesIO(ahead))
        return any(content.is_continuation_of(one) for one in self._known.get(head_hash(content.head), ()))


def _known_logs(db: Db, except_source: str) -> dict[str, list[Import]]:
    """Return the other known logs by the hash of their head; short heads are left out, as they may match by chance."""
    with operation(60, reads_only=True):
        found = list(db["imports"].find({"head_length": HEAD_BYTES, "_id": {"$ne": except_source}}))
    known: dict[str, list[Import]] = {}
    for one in cast(list[Import], found):
        if one.get("chain") and one["chain"]["digests"]:
            known.setdefault(one["head_hash"], []).append(one)
    return known
