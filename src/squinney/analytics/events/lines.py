"""From a chunk of lines to pages and rejects. It needs no database, so that it can run beside the writing."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple, dataclass
from operator import add
from typing import Any

from bson.raw_bson import RawBSONDocument

from squinney.analytics.calendar import EARLIEST
from squinney.analytics.events.pages import PageBuilder, encoded, milliseconds
from squinney.analytics.log_files.chunks import CHUNK_BYTES, MAX_LINE_LENGTH, Chunk
from squinney.analytics.parsers import Malformed, Parser, parser_for
from squinney.analytics.parsers.encoded import encoder
from squinney.analytics.policy import Policy
from squinney.clock import utcnow
from squinney.mongo.schema import Document

KEPT_CHARACTERS = 1_000
ALWAYS_KEPT = frozenset({"time", "site"})


@dataclass(frozen=True)
class Options:
    """The options of an import."""

    name: str | None = None
    title: str = ""
    site: str = ""
    format: str = "auto"
    field_map: Mapping[str, str] | None = None
    fields: Collection[str] | None = None
    take_unterminated: bool = False
    by_hand: bool = True
    chunk_bytes: int = CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of lines, and of those that were stored, rejected or blank."""

    lines: int = 0
    stored: int = 0
    rejected: int = 0
    blank: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Parsed:
    """What a chunk's lines became."""

    chunk: Chunk
    pages: list[RawBSONDocument]
    rejects: list[Document]
    counts: Counts


class LineReader:
    """Parses the chunks of one source, in the format of the options."""

    def __init__(self, source: str, options: Options, policy: Any) -> None:
        self._source = source
        self._options = options
        self._policy = policy
        self._parse = parser_for(options.format, options.field_map)
        # The encoder is much faster than the parser, and handles most lines of these formats.
        plain = options.format in ("combined", "nginx", "vhost_combined") and not options.field_map
        vhost = options.format == "vhost_combined"
        self._encode = encoder(options.fields, vhost=vhost) if plain else None

    def read(self, chunk: Chunk, first_line: int, *, continues_a_line: bool = False) -> Parsed:
        """Return the chunk's pages and rejects."""
        policy: Policy = self._policy()
        closed = milliseconds(policy.closed_before or EARLIEST)
        builder = PageBuilder(self._source)
        rejects: list[Document] = []
        lines = blank = 0
        encode = None if chunk.too_long or continues_a_line else self._encode
        parse = parser_for(chunk.header) if chunk.header else self._parse
        # guard: events carry the site of their import
        site = self._options.site
        for line_number, offset, line in _lines(chunk, first_line):
            lines += 1
            if encode and (quick := encode(line)) and quick[0] >= closed:
                builder.add(quick[2], quick[0], offset, site=quick[1] or site, end=offset + len(line) + 1)
            elif not line or line.isspace():
                blank += 1
            else:
                try:
                    refused = offset == chunk.offset and continues_a_line
                    event = self._event(line, chunk, parse, policy, is_rest=refused)
                except Malformed as error:
                    rejects.append(self._reject(line, line_number, offset, str(error)))
                else:
                    blank += event is None
                    if event is not None:
                        own = event.pop("site", "") or site
                        at = milliseconds(event["time"])
                        builder.add(encoded(event), at, offset, site=own, end=offset + len(line) + 1)
        counts = Counts(lines, lines - blank - len(rejects), len(rejects), blank)
        return Parsed(chunk, [page.document for page in builder.finish()], rejects, counts)

    def _event(self, line: bytes, chunk: Chunk, parse: Parser, policy: Policy, *, is_rest: bool) -> Document | None:
        # guard: a line that is too long is rejected
        if chunk.too_long:
            raise Malformed(f"the line has {chunk.end - chunk.offset:,} bytes; the limit is {MAX_LINE_LENGTH:,}")
        # guard: the rest of a line that was imported unfinished is rejected
        if is_rest:
            raise Malformed("the rest of a line whose beginning was imported before the line was complete")
        event = parse(decoded_line(line))
        if event is None:
            return None
        # guard: a line of a time that retention has closed is rejected
        if refusal := policy.refusal(event["time"]):
            raise Malformed(refusal)
        if self._options.fields is not None:
            kept = {*self._options.fields, *ALWAYS_KEPT}
            event = {name: value for name, value in event.items() if name in kept}
        return event

    def _reject(self, line: bytes, line_number: int, offset: int, reason: str) -> Document:
        return {
            "_id": f"{self._source}-{offset:012x}",
            "source": self._source,
            "line_number": line_number,
            "offset": offset,
            "line": decoded_line(line[:KEPT_CHARACTERS]),
            "reason": reason,
            "at": utcnow(),
        }


def decoded_line(line: bytes) -> str:
    r"""Return the line without a byte-order mark; bytes that are not UTF-8 become `\xff`, as Apache writes them."""
    # guard: a byte-order mark is not part of a line
    return line.removeprefix(BOM_UTF8).decode("utf-8", "backslashreplace")


def _lines(chunk: Chunk, first_line: int) -> Iterator[tuple[int, int, bytes]]:
    offset = chunk.offset
    lines = chunk.lines.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=first_line):
        yield number, offset, line
        offset += len(line) + 1
