"""Sources: recognizes a log by the beginning of its content, never by its name or inode.

A source stores the length and hash of its head. A file whose first bytes have the same hash continues the source: a
rotated copy, a renamed file, or the same log compressed. The head of a young file grows with it, up to `HEAD_BYTES`.
"""

from __future__ import annotations

import hashlib
import io
from datetime import datetime
from typing import BinaryIO, cast

from pymongo.errors import DuplicateKeyError

from squinney.analytics.errors import ImportRunning
from squinney.analytics.events.documents import FORGETTING, Import
from squinney.analytics.log_files.chunks import HEAD_BYTES, MAX_LINE_LENGTH, read_head
from squinney.analytics.log_files.content import CHAIN_BYTES, DIGEST_BYTES, LogContent
from squinney.clock import Clock, utcnow
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document

REJECTED = "rejected"  # every line was
MAX_CANDIDATES = 1_000  # limits how often a stream is compared, if most of its lines look like the start of a log


def source_id(content: bytes) -> str:
    """Return the id of a source: 16 hexadecimal digits of the hash of its head or of its given name."""
    return hashlib.sha256(content).hexdigest()[:16]


def find(db: Db, head: bytes, name: str | None) -> list[Import]:
    """Return the source with the given name, or the sources whose head matches, the longest head first."""
    if name is not None:
        named = db["analytics.imports"].find_one({"_id": source_id(name.encode())})
        return [cast(Import, named)] if named else []
    lengths = [length for length in db["analytics.imports"].distinct("head_length") if 0 < length <= len(head)]
    hashes = [head_hash(head[:length]) for length in lengths]
    sources = db["analytics.imports"].find({"head_hash": {"$in": hashes}}).sort("head_length", -1)
    return cast(list[Import], sorted(sources, key=lambda source: (-source["head_length"], -source["offset"])))


def known_source(db: Db, raw: BinaryIO, *, by_beginning: bool = False) -> Import | None:
    """Return the source of this log, if it, or its beginning, was imported before.

    `by_beginning` compares only the first lines, since finding the end of a compressed log takes long.
    """
    content = LogContent(raw)
    agrees = content.begins_like if by_beginning else content.is_continuation_of
    with operation(60, reads_only=True):
        # guard: a log of which nothing was read yet is not known
        similar = [source for source in find(db, content.head, None) if source["offset"]]
    return next((source for source in similar if agrees(source) and not _is_shared(source, similar)), None)


def _is_shared(source: Import, similar: list[Import]) -> bool:
    """Return True if another log begins with all that is known of a source: only lines that both have were read."""
    chain = source.get("chain")
    if not chain or source["offset"] > chain["bytes"]:
        return False
    others = [other["chain"]["digests"] for other in similar if other["offset"] > source["offset"] and "chain" in other]
    # guard: a beginning that several logs share is no known log
    return any(digests.startswith(chain["digests"]) for digests in others)


def begin(
    db: Db,
    content: LogContent,
    *,
    name: str | None,
    title: str,
    site: str,
    clock: Clock,
    tried: str = "",
    by_hand: bool = True,
) -> Import:
    """Return the source of a log's content, creating it if it is new, and extend its stored head.

    A source that is followed from now on is not `by_hand` any more. One of which every line was rejected starts over
    if the formats `tried` are other ones now.

    Atomic: one insert, or one update; starting over first deletes the rejects.
    After a crash: the source exists, and nothing of it is imported yet; some of its old rejects may be deleted.
    Raises: `ImportRunning` if another import continued the source at the same moment, or if the log was truncated
    while it was compared.
    """
    head, began_at = content.head, utcnow()
    similar = find(db, head, name)
    source = next((known for known in similar if name or content.is_continuation_of(known)), None)
    if source is not None:
        if source["state"] == FORGETTING:
            message = f"{source['name']} is being forgotten; finish with `squinney analytics forget {source['_id']}`"
            raise ImportRunning(message)
        if name is None and source["head_length"] < len(head) and not _grow(db, source, head):
            message = "another process is importing this source, or a log that began with the same lines; try again"
            raise ImportRunning(message)
        if source.get("by_hand") and not by_hand:
            db["analytics.imports"].update_one({"_id": source["_id"]}, {"$unset": {"by_hand": ""}})
        # guard: a log of which every line was rejected starts over in another format
        return _started_over(db, source, site, began_at) if source.get("tried", tried) != tried else source
    if not content.head_is_unchanged():
        raise ImportRunning("the log was truncated while it was compared with known sources; try again")
    source = _new(head, name, title, site, clock)
    if by_hand:
        source["by_hand"] = True
    if similar:  # the id of this head is taken by another log
        source["_id"] = source_id(head + content.chain()["digests"])
    try:
        db["analytics.imports"].insert_one(cast(Document, source))
    except DuplicateKeyError:  # another process created it at the same moment
        source = cast(Import, db["analytics.imports"].find_one({"_id": source["_id"]}))
    return source


def is_rejected(source: Import | None) -> bool:
    """Return True if lines of the source were rejected, and none was stored."""
    return source is not None and source["stored"] == 0 < source["rejected"]


def _started_over(db: Db, source: Import, site: str, began_at: datetime) -> Import:
    """Take a source back to its beginning, if all of its lines were rejected, and nobody has done so meanwhile.

    The rejects are deleted first, so that none is left after a crash; those of an import that started over meanwhile
    are newer than `began_at`.
    """
    # guard: only a log of which every line was rejected starts over
    if not is_rejected(source):
        return source
    # guard: a log that starts over loses its old rejects
    db["analytics.rejects"].delete_many({"source": source["_id"], "at": {"$lte": began_at}})
    unchanged = {"_id": source["_id"], "offset": source["offset"], "stored": 0, "tried": source["tried"]}
    beginning: Document = {"site": site, "format": "", "offset": 0, "lines": 0, "rejected": 0, "blank": 0}
    gone = dict.fromkeys(("tried", "chain", "tail", "unterminated", "hits_offset"), "")
    db["analytics.imports"].update_one(unchanged, {"$set": {**beginning, "state": "running"}, "$unset": gone})
    return cast(Import, db["analytics.imports"].find_one({"_id": source["_id"]}) or source)


def _grow(db: Db, source: Import, head: bytes) -> bool:
    """Store the longer head; return False if another import, maybe of another log, changed it first."""
    grown: Document = {"head_length": len(head), "head_hash": head_hash(head)}
    unchanged = {"_id": source["_id"], "head_length": source["head_length"]}
    return db["analytics.imports"].update_one(unchanged, {"$set": grown}).matched_count == 1


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


class JoinedLogs:
    """A stream of several logs, as from `cat a b`, that ends before the first line of another known log.

    Each line is compared with the first lines of the known logs. At a match, the bytes after it are compared with
    everything stored about that log; if they agree, `next_log` is the rest of the stream. This is only for pipes: a
    file is always one log, because two servers that get nothing but the same health checks write the same lines.
    """

    def __init__(self, db: Db, stream: BinaryIO, source: Import) -> None:
        self._stream = stream
        self._ahead = b""  # read from the stream, but not yet returned
        self._at_first_line = source["offset"] == 0
        self._known = _known_logs(db, source["_id"])
        every = (source for logs in self._known.values() for source in logs)
        self._first_lines = {bytes(source["chain"]["digests"][:DIGEST_BYTES]) for source in every}
        self._candidates_left = MAX_CANDIDATES
        self.next_log: BinaryIO | None = None

    def read(self, size: int) -> bytes:
        """Return the next bytes of this log: whole lines, unless a line is too long or has no line end."""
        while b"\n" not in self._ahead and len(self._ahead) <= MAX_LINE_LENGTH and (more := self._stream.read(size)):
            self._ahead += more
        end = self._start_of_known_log()
        if end is None:
            end = self._ahead.rfind(b"\n") + 1 or len(self._ahead)
        elif end == 0:
            self.next_log = cast(BinaryIO, _Rest(self._ahead, self._stream))
        lines, self._ahead = self._ahead[:end], self._ahead[end:]
        self._at_first_line = False
        return lines

    def _start_of_known_log(self) -> int | None:
        """Return the index in `_ahead` at which another known log begins."""
        at = 0
        for line in self._ahead.split(b"\n")[:-1] if self._candidates_left and self._first_lines else ():
            # guard: a known log is found after a line that is too long
            if hashlib.sha256(line).digest()[:DIGEST_BYTES] in self._first_lines and (at or not self._at_first_line):
                self._candidates_left -= 1
                if self._is_known_from(at):
                    return at
            at += len(line) + 1
        return None

    def _is_known_from(self, index: int) -> bool:
        self._ahead += read_head(self._stream, index + CHAIN_BYTES - len(self._ahead))
        content = LogContent(io.BytesIO(self._ahead[index : index + CHAIN_BYTES]))
        return any(content.is_continuation_of(source) for source in self._known.get(head_hash(content.head), ()))


class _Rest:
    """The rest of a stream, beginning with what was read ahead."""

    def __init__(self, ahead: bytes, stream: BinaryIO) -> None:
        self._ahead = ahead
        self._stream = stream

    def seekable(self) -> bool:
        return False

    def read(self, size: int) -> bytes:
        portion, self._ahead = self._ahead[:size] or self._stream.read(size), self._ahead[size:]
        return portion


def _known_logs(db: Db, except_source: str) -> dict[str, list[Import]]:
    """Return the other known logs by the hash of their head; short heads are left out, as they may match by chance."""
    with operation(60, reads_only=True):
        logs = list(db["analytics.imports"].find({"head_length": HEAD_BYTES, "_id": {"$ne": except_source}}))
    known: dict[str, list[Import]] = {}
    for source in cast(list[Import], logs):
        if source.get("chain") and source["chain"]["digests"]:
            known.setdefault(source["head_hash"], []).append(source)
    return known
