"""One chunk of lines into events and rejects: the work that threads and processes of an import share."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo.write_concern import WriteConcern

from squinney.analytics.events.partitions import EventPartitions, Storable, insert_once
from squinney.analytics.events.reading import LONGEST_LINE, Chunk
from squinney.analytics.events.sources import event_id, offset_in
from squinney.analytics.parsers import Malformed, Parser, parser_for
from squinney.analytics.parsers.encoded import Encode
from squinney.clock import utcnow
from squinney.mongo.connect import operation
from squinney.mongo.schema import Document

SECONDS = 60
KEPT_OF_A_LINE = 1_000
FILLED_BY_THE_SERVER = Timestamp(0, 0)
ALWAYS_KEPT = frozenset({"_id", "arrived", "ssk", "time", "site"})


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of some lines: each is stored, rejected or blank."""

    lines: int = 0
    stored: int = 0
    rejected: int = 0
    blank: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.lines + other.lines,
            self.stored + other.stored,
            self.rejected + other.rejected,
            self.blank + other.blank,
        )


@dataclass
class Storer:
    """Stores the chunks of one source. `known` are offsets of events that are stored already, beyond the checkpoint.

    `encode` takes the lines that it can, in half the time that `parse` does.
    """

    partitions: EventPartitions
    source: str
    parse: Parser
    concern: WriteConcern
    fields: Collection[str] | None = None
    known: Collection[int] = field(default_factory=set)
    continues_a_line: bool = False
    encode: Encode | None = None
    site: str = ""

    def store(self, chunk: Chunk, first_line: int) -> Counts:
        """Store the chunk's events and name its rejects.

        Atomic: each document by itself, under an id that follows from its offset.
        After a crash: some are stored; storing the chunk again adds only the rest.
        Raises: `Unavailable`.
        """
        events: list[Storable] = []
        rejects: list[Document] = []
        lines = blank = 0
        encode = self._encode_for(chunk)
        parse = parser_for(chunk.header) if chunk.header else self.parse
        for line_number, offset, line in _lines(chunk, first_line):
            lines += 1
            if offset in self.known:
                continue
            encoded = encode(line, offset)
            if encoded is not None:
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
                insert_once(self.partitions.db["rejects"], rejects)
        return Counts(lines, lines - blank - len(rejects), len(rejects), blank)

    def _encode_for(self, chunk: Chunk) -> Encode:
        """The short way, unless this chunk is one whose lines must be looked at with care."""
        if self.encode is None or chunk.too_long or self.continues_a_line:
            return lambda line, offset: None
        return self.encode

    def _event(self, line: bytes, offset: int, chunk: Chunk, parse: Parser) -> Document | None:
        if chunk.too_long:
            raise Malformed(f"the line has {chunk.end - chunk.offset:,} bytes; {LONGEST_LINE:,} are the most")
        if self.continues_a_line and offset == chunk.offset:
            raise Malformed("the rest of a line that was imported when it had no end yet")
        event = parse(as_text(line))
        if event is None:
            return None
        if self.site:
            event.setdefault("site", self.site)
        if self.fields is not None:
            event = {name: value for name, value in event.items() if name in self.fields or name in ALWAYS_KEPT}
        return made_ready(event, event_id(self.source, offset))

    def _reject(self, line: bytes, line_number: int, offset: int, reason: str) -> Document:
        return {
            "_id": event_id(self.source, offset),
            "source": self.source,
            "line_number": line_number,
            "offset": offset,
            "line": as_text(line[:KEPT_OF_A_LINE]),
            "reason": reason,
            "at": utcnow(),
        }

    def _insert(self, events: list[Storable], chunk: Chunk, first_line: int) -> list[Document]:
        """Insert the events; what the server or the policy refuses is a reject."""
        failures = self.partitions.insert(events, self.concern) if events else []
        if not failures:
            return []
        reasons = {offset_in(failure.document["_id"]): failure.reason for failure in failures}
        return [
            self._reject(line, line_number, offset, reasons[offset][:KEPT_OF_A_LINE])
            for line_number, offset, line in _lines(chunk, first_line)
            if offset in reasons
        ]


def made_ready(event: Document, new_id: str) -> Document:
    """The event with what storing needs: its id, the arrival that the server fills in, the synthetic shard key."""
    event["_id"] = new_id
    event["arrived"] = FILLED_BY_THE_SERVER
    event["ssk"] = zlib.crc32(new_id.encode())
    return event


def as_text(line: bytes) -> str:
    r"""The line as text; bytes that are not UTF-8 stay as `\xff`, the way Apache itself writes them."""
    return line.decode("utf-8", "backslashreplace")


def _lines(chunk: Chunk, first_line: int) -> Iterator[tuple[int, int, bytes]]:
    offset = chunk.offset
    lines = chunk.lines.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=first_line):
        yield number, offset, line
        offset += len(line) + 1
