"""Imports: a log read once, whatever dies in between.

Chunks are stored by a few workers at once, and checkpoints follow in the order of the file: a checkpoint says that
everything before it is stored. What lies beyond it may be stored already, under the same ids, so it is stored again
without effect.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
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
from squinney.analytics.events.sources import Joined
from squinney.analytics.events.storing import Counts, Job, Options, Storer, as_text
from squinney.analytics.events.workers import Given, ImportWorkers
from squinney.analytics.parsers.w3c import FIELDS as W3C_FIELDS
from squinney.analytics.parsers.w3c import W3C
from squinney.clock import Clock, utcnow
from squinney.errors import SquinneyError
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db

LINES_TRIED = 200
INTERRUPTED = "interrupted"
KNOWN = "all of it was imported before"
JOINED = "logs that were imported before begin within it, and go on as themselves"
NO_END = "its last line has no end yet, and is left until it has"


@dataclass(frozen=True)
class Progress:
    """How far an import is; `of_bytes` is None where the end is not known."""

    bytes_read: int
    of_bytes: int | None
    counts: Counts


@dataclass(frozen=True)
class Imported:
    """What one import did: the source as it is now, what this call added, and what there is to say about it."""

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
    """Read a stream from its source's checkpoint to its end; see `EventLog.import_file`.

    Where another log begins in it that is known, that one is imported next.
    """
    report = _reporter(raw, progress)
    done: list[Imported] = []
    rest: BinaryIO | None = raw
    while rest is not None:
        imported, rest = _import_log(partitions, rest, options, report, after_checkpoint, clock)
        done.append(imported)
    return _all_of(done)


def _all_of(done: list[Imported]) -> Imported:
    """What the parts of a stream came to. That one was imported before goes without saying where others were not."""
    counts = sum((one.counts for one in done), Counts())
    notes = dict.fromkeys(note for one in done for note in one.note.split("; ") if note)
    return Imported(done[-1].source, counts, "; ".join(note for note in notes if note != KNOWN or not counts.lines))


def _import_log(
    partitions: EventPartitions,
    raw: BinaryIO,
    options: Options,
    report: Callable[[Counts], None],
    after_checkpoint: Callable[[Import], None] | None,
    clock: Clock,
) -> tuple[Imported, BinaryIO | None]:
    """One log of the stream, and what comes behind it."""
    content = Content(raw)
    if not content.head:
        return Imported(None, note="it is empty"), None
    _refuse_binary(content.head)
    with operation(60):
        source = sources.begin(
            partitions.db, content, name=options.name, title=options.title, site=options.site, clock=clock
        )
    offset = source["offset"]
    stream = content.begin_at(offset)
    left: list[int] = []
    joined = None if options.name or raw.seekable() else Joined(partitions.db, stream, source)
    read = joined.chunks if joined else partial(chunks, stream, offset)
    found = read(take_unterminated=options.take_unterminated, size=options.chunk_bytes, left=left)
    run = _Run(partitions, source, options, clock, after_checkpoint, report)
    imported = run.over(_while_there(content, found))
    next_log = joined.next_log if joined else None
    left_over = NO_END if left and not imported.note.startswith("the compressed") else ""
    notes = imported.note, left_over, JOINED if next_log else ""
    return replace(imported, note="; ".join(filter(None, notes))), next_log


def _while_there(content: Content, found: Iterator[Chunk]) -> Iterator[Chunk]:
    """The chunks, up to where the log is cut: what is read then is another one, at a place that means nothing in it."""
    for chunk in found:
        if not content.is_still_there():
            return
        yield chunk


def is_known(db: Db, raw: BinaryIO) -> bool:
    """Whether this log, or a beginning of it, was imported before.

    Raises: `Unavailable`.
    """
    content = Content(raw)
    with operation(60, reads_only=True):
        return any(content.is_continuation_of(one) for one in sources.find(db, content.head, None))


def _refuse_binary(head: bytes) -> None:
    if b"\0" in head and parsers.detect(as_text(line) for line in head.split(b"\n")) is None:
        raise NotALog("this is not a log: it begins with bytes that are not text", field="path")


def _reporter(raw: BinaryIO, progress: Callable[[Progress], None] | None) -> Callable[[Counts], None]:
    if progress is None:
        return lambda counts: None
    try:
        size = os.fstat(raw.fileno()).st_size or None
        tell: Callable[[], int] = raw.tell if raw.seekable() else lambda: 0
    except (OSError, ValueError, AttributeError):
        size, tell = None, lambda: 0
    report = progress
    return lambda counts: report(Progress(tell(), size if tell() else None, counts))


@dataclass
class _Run:
    """One pass over a source's chunks."""

    _partitions: EventPartitions
    _source: Import
    _options: Options
    _clock: Clock
    _after_checkpoint: Callable[[Import], None] | None
    _report: Callable[[Counts], None]
    _counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._format = self._source["format"] if self._options.format == "auto" else self._options.format

    def over(self, found: Iterator[Chunk]) -> Imported:
        """Store every chunk, move the checkpoint behind each, and say how it ended."""
        note = ""
        try:
            self._store_all(found)
        except CutShort as error:
            note = f"the compressed file is cut short or damaged ({error}); what could be read is stored"
        except ImportRunning:  # it is another's to say how it goes on
            raise
        except BaseException:
            with suppress(SquinneyError, PyMongoError):
                self._finished(INTERRUPTED)
            raise
        self._source = self._finished("incomplete" if note else "done")
        if not note and self._counts.lines and not self._counts.stored:
            note = "no line of it is an event: is this a log?"
        if not self._counts.lines and self._after_checkpoint:
            self._after_checkpoint(self._source)
        if not self._counts.lines and not note:
            note = KNOWN
        return Imported(self._source, self._counts, note)

    def _store_all(self, found: Iterator[Chunk]) -> None:
        first = next(found, None)
        if first is None:
            return
        self._choose_format(first)
        with self._crew() as crew:
            self._in_order(crew, chain([first], found))

    def _in_order(self, crew: ImportWorkers, found: Iterator[Chunk]) -> None:
        """Keep the crew busy, and wait for the oldest chunk first: checkpoints are in the file's order."""
        under_way: deque[Given] = deque()
        next_line = self._source["lines"] + 1
        broken: CutShort | None = None
        try:
            for chunk in map(self._with_header, found):
                under_way.append(crew.store(chunk, next_line))
                next_line += chunk.lines.count(b"\n") if not chunk.too_long and chunk.terminated else 1
                if len(under_way) > crew.most:
                    self._checkpoint(under_way.popleft())
        except CutShort as error:
            broken = error
        while under_way:
            self._checkpoint(under_way.popleft())
        if broken:
            raise broken

    def _choose_format(self, first: Chunk) -> None:
        if self._format or self._options.field_map:
            return
        lines = [as_text(line) for line in first.lines.split(b"\n", LINES_TRIED)[:LINES_TRIED]]
        self._format = parsers.detect(line for line in lines if line) or ""

    def _with_header(self, chunk: Chunk) -> Chunk:
        """The chunk with the line that says which fields it has, where the format is one that has such lines."""
        if not self._format.startswith((W3C_FIELDS, "w3c")):
            return chunk
        chunk = replace(chunk, header=self._format)
        self._format = last_header(chunk)
        return chunk

    def _crew(self) -> ImportWorkers:
        source = self._source["_id"]
        where = OF_SOURCE(source=source, after=self._source["offset"])
        with operation(60):
            stored = [one for partition in self._partitions.spanning() for one in partition.find(where, {"_id": 1})]
        known = {sources.offset_in(event["_id"]) for event in stored}
        options = replace(self._options, format=self._format or "auto", site=self._source["site"])
        job = Job(source, self._partitions.db.name, known, options)
        return ImportWorkers(Storer(self._partitions, job, bool(self._source.get("unterminated"))))

    def _checkpoint(self, given: Given) -> None:
        """Move the checkpoint behind a stored chunk, unless another process has moved it.

        Atomic: one update, which requires the old offset.
        """
        chunk, counts = given.chunk, given.counts()
        unchanged = {"_id": self._source["_id"], "offset": chunk.offset, "state": {"$ne": sources.FORGETTING}}
        moved = {
            "offset": chunk.end,
            "state": "running",
            "format": last_header(chunk) if chunk.header else self._format,
            "unterminated": not chunk.terminated,
            "chain": chained(self._source.get("chain"), chunk),
            "tail": tail_of(chunk),
            "updated_at": self._clock(),
        }
        with operation(60):
            source = self._partitions.db["imports"].find_one_and_update(
                unchanged, {"$set": moved, "$inc": asdict(counts)}, return_document=True
            )
        if source is None:
            raise ImportRunning(f"another process is importing {self._source['name'] or 'this source'}")
        self._source = cast(Import, source)
        self._counts += counts
        if self._after_checkpoint:
            self._after_checkpoint(self._source)
        self._report(self._counts)

    def _finished(self, state: str) -> Import:
        with operation(60):
            done = self._partitions.db["imports"].find_one_and_update(
                {"_id": self._source["_id"], "offset": self._source["offset"]},
                {"$set": {"state": state}},
                return_document=True,
            )
        return cast(Import, done or self._source)


def last_header(chunk: Chunk) -> str:
    """The lines that say which fields come behind a chunk: its last such lines, or those before it."""
    parser = W3C(chunk.header)
    parser.read_directives(as_text(chunk.lines))
    return parser.header or chunk.header
