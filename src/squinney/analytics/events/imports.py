"""Imports: each line of a log is stored once, even if the import crashes and is repeated.

The pages and rejects of a chunk of lines are stored in one transaction with the source's checkpoint, so that what is
stored always ends at the checkpoint. While one chunk is being stored, the next one is parsed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, cast

from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError

from squinney.analytics import parsers
from squinney.analytics.errors import ImportRunning, NotALog, NotUnderstood
from squinney.analytics.events import sources
from squinney.analytics.events.documents import EVENTS, FORGETTING, IMPORTS, REJECTS, Import
from squinney.analytics.events.lines import Counts, LineReader, Options, Parsed, decoded_line
from squinney.analytics.events.sources import JoinedLogs
from squinney.analytics.log_files.chunks import Chunk, CutShort, chunks
from squinney.analytics.log_files.content import LogContent, chained, tail_of
from squinney.analytics.parsers.w3c import FIELDS as W3C_FIELDS
from squinney.analytics.parsers.w3c import W3C
from squinney.analytics.policy import RecentPolicy
from squinney.clock import Clock, utcnow
from squinney.errors import SquinneyError
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import in_transaction

CHUNKS_AHEAD = 2  # parsed while one is being stored
SECONDS = 60
LINES_TRIED = 200
INTERRUPTED = "interrupted"
ALREADY_IMPORTED = "all of it was imported before"
JOINED = "it contains logs that were imported before, which were continued as their own sources"
NO_EVENTS = "none of its lines is an event: is this a log?"
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

    @property
    def lines(self) -> int:
        """The number of lines that this call read."""
        return self.counts.lines


def import_stream(
    db: Db,
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

    db = pinned(db)
    policy = RecentPolicy(db)
    counts, notes, source, rejected = Counts(), dict[str, None](), None, None
    rest: BinaryIO | None = raw
    while rest is not None:
        content = LogContent(rest)
        if not content.head:
            notes["it is empty"] = None
            break
        # guard: a binary file is refused
        _refuse_binary(content.head)
        with operation(SECONDS):
            source = sources.begin(
                db,
                content,
                name=options.name,
                title=options.title,
                site=options.site,
                clock=clock,
                tried=parsers.tried(options.format, options.field_map),
                by_hand=options.by_hand,
            )
        stream = content.read_from(source["offset"])
        joined = None if options.name or raw.seekable() else JoinedLogs(db, stream, source)
        lines = chunks(cast(BinaryIO, joined) or stream, source["offset"], size=options.chunk_bytes)
        run = _Run(db, policy, source, options, clock, after_checkpoint, report)
        run.store_all(content, lines)
        source, counts, rest = run.source, counts + run.counts, joined.next_log if joined else None
        rejected = rejected or (source if sources.is_rejected(source) else None)
        notes |= dict.fromkeys([*run.notes, JOINED] if rest else run.notes)
    if counts.lines:
        notes.pop(ALREADY_IMPORTED, None)
    return Imported(source if counts.stored else rejected or source, counts, "; ".join(notes))


def require_events(db: Db, imported: Imported) -> None:
    """Refuse an import of which every line was rejected.

    Raises: `NotUnderstood`, with the formats that were tried and the reason of the first reject.
    """
    source = imported.source
    if source is None or imported.counts.stored or not sources.is_rejected(source):
        return
    with operation(60, reads_only=True):
        first = db[REJECTS].find_one({"source": source["_id"]}, sort=[("source", 1), ("offset", 1)])
    reason = f"line {first['line_number']:,}: {first['reason']}" if first else "its rejects are gone"
    tried = source.get("tried", source["format"])
    raise NotUnderstood(
        f"{source['name']}: none of its lines is an event;"
        f" {'' if f'formats {tried}' in reason else f'tried {tried}; '}{reason}; import it again with the right format",
        imported,
        field="format",
        source=source["_id"],
        tried=tried,
    )


def _refuse_binary(head: bytes) -> None:
    if b"\0" in head and parsers.detect(decoded_line(line) for line in head.split(b"\n")) is None:
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
    """Stores a source's chunks, each with its checkpoint."""

    _db: Db
    _policy: RecentPolicy
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

    def store_all(self, content: LogContent, lines: Iterator[Chunk]) -> None:
        """Store every chunk, and set the source's final state."""
        try:
            self._store_chunks(self._importable(content, lines))
        except ImportRunning:  # the other import sets the state
            raise
        except BaseException:
            with suppress(SquinneyError, PyMongoError):
                # guard: an interrupted import is marked as interrupted
                self._finished(INTERRUPTED)
            raise
        state = "incomplete" if self._damage else sources.REJECTED if sources.is_rejected(self.source) else "done"
        self.source = self._finished(state)
        if self._damage:
            self.notes.append(self._damage)
        elif not self.counts.lines and state == "done":
            self.notes.insert(0, ALREADY_IMPORTED)
        elif not self.counts.stored:
            self.notes.insert(0, NO_EVENTS)
        if not self.counts.lines and self._after_checkpoint:
            self._after_checkpoint(self.source)

    def _importable(self, content: LogContent, lines: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks up to an unfinished line, which may grow, or until the log is truncated."""
        try:
            for chunk in lines:
                if not content.head_is_unchanged():  # this belongs to another log
                    return
                if not (chunk.terminated or self._options.take_unterminated):
                    self.notes.append(UNFINISHED)
                    return
                yield chunk
        # guard: the readable lines of a damaged file are stored
        except CutShort as error:
            self._damage = f"the compressed file is cut short or damaged ({error}); the readable lines are stored"

    def _store_chunks(self, lines: Iterator[Chunk]) -> None:
        """Parse ahead in a thread, and store the chunks in the order of the file."""
        first = next(lines, None)
        if first is None:
            return
        self._choose_format(first)
        options = replace(self._options, format=self._format or "auto", site=self.source["site"])
        reader = LineReader(self.source["_id"], options, self._policy)
        pending: deque[Future[Parsed]] = deque()
        next_line = self.source["lines"] + 1
        continues_a_line = bool(self.source.get("unterminated"))
        with ThreadPoolExecutor(1, thread_name_prefix="import") as threads:
            for chunk in map(self._with_header, chain([first], lines)):
                read = partial(reader.read, continues_a_line=continues_a_line)
                pending.append(threads.submit(read, chunk, next_line))
                continues_a_line = False
                next_line += chunk.lines.count(b"\n") if not chunk.too_long and chunk.terminated else 1
                if len(pending) > CHUNKS_AHEAD:
                    # guard: checkpoints move in the file's order
                    self._store(pending.popleft().result())
            while pending:
                self._store(pending.popleft().result())

    def _choose_format(self, first: Chunk) -> None:
        if self._format or self._options.field_map:
            return
        lines = [decoded_line(line) for line in first.lines.split(b"\n", LINES_TRIED)[:LINES_TRIED]]
        self._format = parsers.detect(line for line in lines if line) or ""

    def _with_header(self, chunk: Chunk) -> Chunk:
        """Return the chunk with the directive lines that name its fields, if the format has such lines."""
        if not self._format.startswith((W3C_FIELDS, "w3c")):
            return chunk
        chunk = replace(chunk, header=self._format)
        # guard: a chunk uses the field names of an earlier chunk
        self._format = last_header(chunk)
        return chunk

    def _store(self, parsed: Parsed) -> None:
        """Store a chunk's pages and rejects, and move the checkpoint after it, unless another process has moved it.

        Atomic: one transaction.
        """
        with operation(SECONDS):
            source = in_transaction(self._db, partial(self._write, parsed), seconds=SECONDS)
        if source is None:
            raise ImportRunning(f"another process is importing {self.source['name'] or 'this source'}")
        self.source = source
        self.counts += parsed.counts
        if self._after_checkpoint:
            self._after_checkpoint(self.source)
        self._report(self.counts)

    def _write(self, parsed: Parsed, session: ClientSession) -> Import | None:
        chunk = parsed.chunk
        # guard: a checkpoint moves only if its offset is unchanged
        unchanged = {"_id": self.source["_id"], "offset": chunk.offset, "state": {"$ne": FORGETTING}}
        moved = {
            "offset": chunk.end,
            "state": "running",
            "format": last_header(chunk) if chunk.header else self._format,
            "unterminated": not chunk.terminated,
            "tried": parsers.tried(self._options.format, self._options.field_map),
            "chain": chained(self.source.get("chain"), chunk),
            "tail": tail_of(chunk),
            "updated_at": self._clock(),
        }
        source = self._db[IMPORTS].find_one_and_update(
            unchanged, {"$set": moved, "$inc": asdict(parsed.counts)}, return_document=True, session=session
        )
        if source is not None:
            if parsed.rejects:  # an import of an older version may have stored some before it died
                lines = {"source": self.source["_id"], "offset": {"$gte": chunk.offset, "$lt": chunk.end}}
                self._db[REJECTS].delete_many(lines, session=session)
            for name, documents in ((EVENTS, parsed.pages), (REJECTS, parsed.rejects)):
                if documents:
                    self._db[name].insert_many(cast(Any, documents), ordered=False, session=session)
        return cast(Import | None, source)

    def _finished(self, state: str) -> Import:
        with operation(SECONDS):
            done = self._db[IMPORTS].find_one_and_update(
                # guard: an import sets its final state only if its offset is unchanged
                {"_id": self.source["_id"], "offset": self.source["offset"]},
                {"$set": {"state": state}},
                return_document=True,
            )
        return cast(Import, done or self.source)


def last_header(chunk: Chunk) -> str:
    """Return the directive lines for the lines after a chunk: the chunk's last ones, or its own header."""
    parser = W3C(chunk.header)
    parser.read_directives(decoded_line(chunk.lines))
    return parser.header or chunk.header
