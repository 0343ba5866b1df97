"""Which log a file is: known by the beginning of its content, never by its name or inode.

A source keeps the length and hash of its head. A file whose first bytes hash to the same continues it: a rotated copy,
a renamed file, the same log compressed. The head grows with a young file, up to `HEAD_BYTES`.
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
MOST_TRIES = 1_000  # a log of nothing but such lines would be looked through again from each of them


def id_of(text: bytes) -> str:
    """A source's id: 16 hexadecimal digits of its head's or given name's hash."""
    return hashlib.sha256(text).hexdigest()[:16]


def event_id(source: str, offset: int) -> str:
    """The id of what begins at this byte: the same however often the line is read, and in the order of the file."""
    return f"{source}-{offset:012x}"


def offset_in(event_id: str) -> int:
    """The byte at which the event's line begins."""
    return int(event_id.rpartition("-")[2], 16)


def log_of(event_id: str) -> str:
    """The source of an imported event; nothing for one that was recorded singly."""
    return str(event_id).rpartition("-")[0]


def find(db: Db, head: bytes, name: str | None) -> list[Import]:
    """The sources that a file with this head may continue, the likeliest first, or the one of the given name."""
    if name is not None:
        named = db["imports"].find_one({"_id": id_of(name.encode())})
        return [cast(Import, named)] if named else []
    lengths = [length for length in db["imports"].distinct("head_length") if 0 < length <= len(head)]
    hashes = [head_hash(head[:length]) for length in lengths]
    found = db["imports"].find({"head_hash": {"$in": hashes}}).sort("head_length", -1)
    return cast(list[Import], sorted(found, key=lambda one: (-one["head_length"], -one["offset"])))


def begin(db: Db, content: Content, *, name: str | None, title: str, site: str, clock: Clock) -> Import:
    """The source of a file, made known if it is new, with as much of its head as there is by now.

    Its content tells it from others that begin alike.

    Atomic: one insert, or one update.
    After a crash: the source is known, with nothing read yet.
    Raises: `ImportRunning` where it was continued at the same moment, by the same log or by one that began alike, or
    was cut.
    """
    head = content.head
    alike = find(db, head, name)
    source = next((one for one in alike if name or content.is_continuation_of(one)), None)
    if source is not None:
        _refuse_forgotten(source)
        if name is None and source["head_length"] < len(head) and not _grow(db, source, head):
            raise ImportRunning("another process is importing this source, or one that began alike; try again")
        return source
    if not content.is_still_there():
        raise ImportRunning("the log was cut while it was looked at; try again")
    source = _new(head, name, title, site, clock)
    if alike:  # there is one of that head already
        source["_id"] = id_of(head + content.chain()["digests"])
    try:
        db["imports"].insert_one(cast(Document, source))
    except DuplicateKeyError:  # another process began it at the same moment
        source = cast(Import, db["imports"].find_one({"_id": source["_id"]}))
    return source


def _refuse_forgotten(source: Import) -> None:
    if source["state"] == FORGETTING:
        raise ImportRunning(f"{source['name']} is being forgotten; `squinney analytics forget {source['_id']}` goes on")


def _grow(db: Db, source: Import, head: bytes) -> bool:
    """Know the source by all of this head; false where another import, perhaps of another log, was faster."""
    grown: Document = {"head_length": len(head), "head_hash": head_hash(head)}
    unchanged = {"_id": source["_id"], "head_length": source["head_length"]}
    return db["imports"].update_one(unchanged, {"$set": grown}).matched_count == 1


def _new(head: bytes, name: str | None, title: str, site: str, clock: Clock) -> Import:
    return {
        "_id": id_of(head if name is None else name.encode()),
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
    """What a log of this beginning is known by."""
    return hashlib.sha256(head[:HEAD_BYTES]).hexdigest()


# ---- several logs in one stream ----


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
        return any(content.is_continuation_of(one) for one in self._known.get(head_hash(content.head), ()))


def _known_logs(db: Db, but: str) -> dict[str, list[Import]]:
    """The logs that are known by a whole kilobyte, by its hash; less could be a chance. No log is within itself."""
    with operation(60, reads_only=True):
        found = list(db["imports"].find({"head_length": HEAD_BYTES, "_id": {"$ne": but}}))
    known: dict[str, list[Import]] = {}
    for one in cast(list[Import], found):
        if one.get("chain") and one["chain"]["digests"]:
            known.setdefault(one["head_hash"], []).append(one)
    return known
