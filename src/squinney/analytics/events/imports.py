"""Imports: each line of a log is stored once, even if the import crashes and is repeated.

Several workers store chunks at the same time. Checkpoints move in the order of the file: everything before a checkpoint
is stored. Lines after it may be stored already; they have the same ids, so that storing them again has no effect.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import BinaryIO, cast

from pymongo.errors import PyMongoError

from squinney.analytics import parsers
from squinney.analytics.errors import ImportRunning, NotALog
from squinney.analytics.events import sources
from squinney.analytics.events.documents import Import
from squinney.analytics.events.log_content import Content, chained, tail_of
from squinney.analytics.events.partitions import EventPartitions
from squinney.analytics.events.queries import OF_SOURCE
from squinney.analytics.events.reading import Chunk, CutShort, chunks
from squinney.analytics.events.sources import JoinedLogs
from squinney.analytics.events.storing import Counts, Job, Options, Storer, as_text
from squinney.analytics.events.workers import ImportWorkers, PendingChunk
from squinney.analytics.parsers.w3c import FIELDS as W3C_FIELDS
from squinney.analytics.parsers.w3c import W3C
from squinney.clock import Clock, utcnow
from squinney.errors import SquinneyError
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db

LINES_TRIED = 200
INTERRUPTED = "interrupted"
ALREADY_IMPORTED = "all of it was imported before"
JOINED = "it contains logs that were imported before, which were continued as their own sources"
UNFINISHED = "its last line has no line end yet, and is left for the next import"


@dataclass(frozen=True)
class Progress:
    """The progress of an import; `of_bytes` is None if the size is unknown."""

    bytes_read: int
    of_bytes: int | None
    counts: Counts


@dataclass(frozen=True)
class Imported:
    """The result of one import: the source's present record, the counts of this call, and a note for the user."""

    source: Import | None
    counts: Counts = field(default_factory=Counts)
    note: str = ""


def import_stream(
    partitions: EventPartitions,
    raw: BinaryIO,
    options: Options,
    *,
    progress: Callable[[Progress], None] | None = None,
    after_checkpoint: Callable[[Import], None] | None = None,
    clock: Clock = utcnow,
) -> Imported:
    """Import a stream from its source's checkpoint to its end; see `EventLog.import_file`.

    If another known log begins within the stream, the rest of the stream is imported as that log.
    """

    def report(counts: Counts) -> None:
        if progress:
            progress(Progress(*_position(raw), counts))

    counts, notes, source = Counts(), dict[str, None](), None
    rest: BinaryIO | None = raw
    while rest is not None:
        content = Content(rest)
        if not content.head:
            notes["it is empty"] = None
            break
        _refuse_binary(content.head)
        with operation(60):
            source = sources.begin(
                partitions.db, content, name=options.name, title=options.title, site=options.site, clock=clock
            )
        stream = content.read_from(source["offset"])
        joined = None if options.name or raw.seekable() else JoinedLogs(partitions.db, stream, source)
        found = chunks(cast(BinaryIO, joined) or stream, source["offset"], size=options.chunk_bytes)
        run = _Run(partitions, source, options, clock, after_checkpoint, report)
        run.store_all(content, found)
        source, counts, rest = run.source, counts + run.counts, joined.next_log if joined else None
        notes |= dict.fromkeys([*run.notes, JOINED] if rest else run.notes)
    if counts.lines:
        notes.pop(ALREADY_IMPORTED, None)
    return Imported(source, counts, "; ".join(notes))


def is_known(db: Db, raw: BinaryIO) -> bool:
    """Return True if this log, or its beginning, was imported before."""
    content = Content(raw)
    with operation(60, reads_only=True):
        return any(content.is_continuation_of(one) for one in sources.find(db, content.head, None))


def _refuse_binary(head: bytes) -> None:
    if b"\0" in head and parsers.detect(as_text(line) for line in head.split(b"\n")) is None:
        raise NotALog("the file is not a log: it begins with bytes that are not text", field="path")


def _position(raw: BinaryIO) -> tuple[int, int | None]:
    """Return how much of a file was read, and its size; zero and None if that is unknown."""
    try:
        at = raw.tell() if raw.seekable() else 0
        return at, os.fstat(raw.fileno()).st_size or None if at else None
    except (OSError, ValueError, AttributeError):
        return 0, None


@dataclass
class _Run:
    """Stores a source's chunks and moves its checkpoint."""

    _partitions: EventPartitions
    source: Import
    _options: Options
    _clock: Clock
    _after_checkpoint: Callable[[Import], None] | None
    _report: Callable[[Counts], None]
    counts: Counts = field(default_factory=Counts)
    notes: list[str] = field(default_factory=list)
    _damage: str = ""

    def __post_init__(self) -> None:
        self._format = self.source["format"] if self._options.format == "auto" else self._options.format

    def store_all(self, content: Content, found: Iterator[Chunk]) -> None:
        """Store every chunk, move the checkpoint after each one, and set the source's final state."""
        try:
            self._store_chunks(self._importable(content, found))
        except ImportRunning:  # the other import sets the state
            raise
        except BaseException:
            with suppress(SquinneyError, PyMongoError):
                self._finished(INTERRUPTED)
            raise
        self.source = self._finished("incomplete" if self._damage else "done")
        if self._damage:
            self.notes.append(self._damage)
        elif not self.counts.lines:
            self.notes.insert(0, ALREADY_IMPORTED)
        elif not self.counts.stored:
            self.notes.insert(0, "none of its lines is an event: is this a log?")
        if not self.counts.lines and self._after_checkpoint:
            self._after_checkpoint(self.source)

    def _importable(self, content: Content, found: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks up to an unfinished line, which may grow, or until the log is truncated."""
        try:
            for chunk in found:
                if not content.head_is_unchanged():  # this belongs to another log
                    return
                if not (chunk.terminated or self._options.take_unterminated):
                    self.notes.append(UNFINISHED)
                    return
                yield chunk
        except CutShort as error:
            self._damage = f"the compressed file is cut short or damaged ({error}); the readable lines are stored"

    def _store_chunks(self, found: Iterator[Chunk]) -> None:
        """Keep the workers busy, and wait for the oldest chunk first: checkpoints move in the file's order."""
        first = next(found, None)
        if first is None:
            return
        self._choose_format(first)
        pending: deque[PendingChunk] = deque()
        next_line = self.source["lines"] + 1
        with self._workers() as workers:
            for chunk in map(self._with_header, chain([first], found)):
                pending.append(workers.store(chunk, next_line))
                next_line += chunk.lines.count(b"\n") if not chunk.too_long and chunk.terminated else 1
                if len(pending) > workers.max_pending:
                    self._checkpoint(pending.popleft())
            while pending:
                self._checkpoint(pending.popleft())

    def _choose_format(self, first: Chunk) -> None:
        if self._format or self._options.field_map:
            return
        lines = [as_text(line) for line in first.lines.split(b"\n", LINES_TRIED)[:LINES_TRIED]]
        self._format = parsers.detect(line for line in lines if line) or ""

    def _with_header(self, chunk: Chunk) -> Chunk:
        """Return the chunk with the directive lines that name its fields, if the format has such lines."""
        if not self._format.startswith((W3C_FIELDS, "w3c")):
            return chunk
        chunk = replace(chunk, header=self._format)
        self._format = last_header(chunk)
        return chunk

    def _workers(self) -> ImportWorkers:
        source = self.source["_id"]
        where = OF_SOURCE(source=source, after=self.source["offset"])
        with operation(60):
            stored = [event for partition in self._partitions.spanning() for event in partition.find(where, {"_id": 1})]
        known = {sources.offset_in(event["_id"]) for event in stored}
        options = replace(self._options, format=self._format or "auto", site=self.source["site"])
        job = Job(source, self._partitions.db.name, known, options)
        return ImportWorkers(Storer(self._partitions, job, bool(self.source.get("unterminated"))))

    def _checkpoint(self, pending: PendingChunk) -> None:
        """Wait for a chunk and move the checkpoint after it, unless another process has moved the checkpoint.

        Atomic: one update, whose filter contains the old offset.
        """
        chunk, counts = pending.chunk, pending.counts()
        unchanged = {"_id": self.source["_id"], "offset": chunk.offset, "state": {"$ne": sources.FORGETTING}}
        moved = {
            "offset": chunk.end,
            "state": "running",
            "format": last_header(chunk) if chunk.header else self._format,
            "unterminated": not chunk.terminated,
            "chain": chained(self.source.get("chain"), chunk),
            "tail": tail_of(chunk),
            "updated_at": self._clock(),
        }
        with operation(60):
            source = self._partitions.db["imports"].find_one_and_update(
                unchanged, {"$set": moved, "$inc": asdict(counts)}, return_document=True
            )
        if source is None:
            raise ImportRunning(f"another process is importing {self.source['name'] or 'this source'}")
        self.source = cast(Import, source)
        self.counts += counts
        if self._after_checkpoint:
            self._after_checkpoint(self.source)
        self._report(self.counts)

    def _finished(self, state: str) -> Import:
        with operation(60):
            done = self._partitions.db["imports"].find_one_and_update(
                {"_id": self.source["_id"], "offset": self.source["offset"]},
                {"$set": {"state": state}},
                return_document=True,
            )
        return cast(Import, done or self.source)


def last_header(chunk: Chunk) -> str:
    """Return the directive lines for the lines after a chunk: the chunk's last ones, or its own header."""
    parser = W3C(chunk.header)
    parser.read_directives(as_text(chunk.lines))
    return parser.header or chunk.header
