"""Storing one chunk of lines as events and rejects; an import's threads and processes run this code."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from operator import add

from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo.write_concern import WriteConcern

from squinney.analytics.events.partitions import EventPartitions, Storable, insert_missing
from squinney.analytics.events.reading import CHUNK_BYTES, LONGEST_LINE, Chunk
from squinney.analytics.events.sources import event_id, offset_in
from squinney.analytics.parsers import Malformed, Parser, parser_for
from squinney.analytics.parsers.encoded import encoder
from squinney.clock import utcnow
from squinney.mongo.connect import operation
from squinney.mongo.schema import Document

SECONDS = 60
KEPT_CHARACTERS = 1_000
FILLED_BY_THE_SERVER = Timestamp(0, 0)
ALWAYS_KEPT = frozenset({"_id", "arrived", "ssk", "time", "site"})


@dataclass(frozen=True)
class Options:
    """The options of an import. More than one of `processes` needs the `uri` for their own connections."""

    name: str | None = None
    title: str = ""
    site: str = ""
    format: str = "auto"
    field_map: Mapping[str, str] | None = None
    fields: Collection[str] | None = None
    concern: WriteConcern = field(default_factory=lambda: WriteConcern("majority"))
    processes: int = 1
    uri: str | None = None
    take_unterminated: bool = False
    chunk_bytes: int = CHUNK_BYTES


@dataclass(frozen=True)
class Job:
    """Everything needed to store a source's chunks, in a form that can be sent to another process.

    `known` are the offsets of events that are already stored beyond the checkpoint.
    """

    source: str
    database: str
    known: Collection[int]
    options: Options


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of lines, and of those that were stored, rejected or blank."""

    lines: int = 0
    stored: int = 0
    rejected: int = 0
    blank: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(add, astuple(self), astuple(other)))


@dataclass
class Storer:
    """Stores the chunks of one source."""

    partitions: EventPartitions
    job: Job
    continues_a_line: bool = False

    def __post_init__(self) -> None:
        options = self.job.options
        self._parse = parser_for(options.format, options.field_map)
        # The encoder is much faster than the parser, and handles most lines of these formats.
        plain = options.format in ("combined", "nginx", "vhost_combined") and not options.field_map
        vhost = options.format == "vhost_combined"
        self._encode = encoder(self.job.source, options.fields, options.site, vhost=vhost) if plain else None

    def store(self, chunk: Chunk, first_line: int) -> Counts:
        """Store the chunk's events and rejects.

        Atomic: each document separately, under an id that is derived from its offset.
        After a crash: some documents are stored; storing the chunk again adds only the rest.
        Raises: `Unavailable`.
        """
        events: list[Storable] = []
        rejects: list[Document] = []
        lines = blank = 0
        encode = None if chunk.too_long or self.continues_a_line else self._encode
        parse = parser_for(chunk.header) if chunk.header else self._parse
        for line_number, offset, line in _lines(chunk, first_line):
            lines += 1
            if offset in self.job.known:
                continue
            if encode and (encoded := encode(line, offset)):
                events.append(RawBSONDocument(encoded))
            elif not line or line.isspace():
                blank += 1
            else:
                try:
                    event = self._event(line, offset, chunk, parse)
                except Malformed as error:
                    rejects.append(self._reject(line, line_number, offset, str(error)))
                else:
                    blank += event is None
                    events += [] if event is None else [event]
        with operation(SECONDS):
            rejects += self._insert(events, chunk, first_line)
            if rejects:
                insert_missing(self.partitions.db["rejects"], rejects)
        return Counts(lines, lines - blank - len(rejects), len(rejects), blank)

    def _event(self, line: bytes, offset: int, chunk: Chunk, parse: Parser) -> Document | None:
        if chunk.too_long:
            raise Malformed(f"the line has {chunk.end - chunk.offset:,} bytes; the limit is {LONGEST_LINE:,}")
        if self.continues_a_line and offset == chunk.offset:
            raise Malformed("the rest of a line whose beginning was imported before the line was complete")
        event = parse(as_text(line))
        if event is None:
            return None
        options = self.job.options
        if options.site:
            event.setdefault("site", options.site)
        if options.fields is not None:
            event = {name: value for name, value in event.items() if name in options.fields or name in ALWAYS_KEPT}
        return with_storage_fields(event, event_id(self.job.source, offset))

    def _reject(self, line: bytes, line_number: int, offset: int, reason: str) -> Document:
        return {
            "_id": event_id(self.job.source, offset),
            "source": self.job.source,
            "line_number": line_number,
            "offset": offset,
            "line": as_text(line[:KEPT_CHARACTERS]),
            "reason": reason,
            "at": utcnow(),
        }

    def _insert(self, events: list[Storable], chunk: Chunk, first_line: int) -> list[Document]:
        """Insert the events; return a reject for each one that the server or the retention policy refuses."""
        failures = self.partitions.insert(events, self.job.options.concern) if events else []
        if not failures:
            return []
        reasons = {offset_in(failure.document["_id"]): failure.reason for failure in failures}
        return [
            self._reject(line, line_number, offset, reasons[offset][:KEPT_CHARACTERS])
            for line_number, offset, line in _lines(chunk, first_line)
            if offset in reasons
        ]


def with_storage_fields(event: Document, new_id: str) -> Document:
    """Add the fields that storing needs: the id, the arrival that MongoDB sets, and the synthetic shard key."""
    event["_id"] = new_id
    event["arrived"] = FILLED_BY_THE_SERVER
    event["ssk"] = zlib.crc32(new_id.encode())
    return event


def as_text(line: bytes) -> str:
    r"""Return the line as text; bytes that are not UTF-8 become `\xff`, as Apache writes them."""
    return line.decode("utf-8", "backslashreplace")


def _lines(chunk: Chunk, first_line: int) -> Iterator[tuple[int, int, bytes]]:
    offset = chunk.offset
    lines = chunk.lines.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=first_line):
        yield number, offset, line
        offset += len(line) + 1
