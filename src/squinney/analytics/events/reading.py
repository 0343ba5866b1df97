"""Log files as bytes: plain or compressed, cut into chunks of whole lines, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from squinney.errors import Invalid

CHUNK_BYTES = 1 << 20
LONGEST_LINE = 65_536
HEAD_BYTES = 1_024


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines at an offset. One that is `too_long` to be a line is alone, and given by its beginning only.

    `header` is the line, somewhere before, that says which fields these have.
    """

    offset: int
    end: int
    lines: bytes
    too_long: bool = False
    terminated: bool = True
    header: str = ""


def decompressed(raw: BinaryIO) -> tuple[BinaryIO, bool]:
    """The content as a stream, and whether it was compressed, and so cannot grow any more.

    Raises: `Invalid` where the library for it is not installed.
    """
    buffered: Any = raw if hasattr(raw, "peek") else _Borrowed(cast(io.RawIOBase, raw))
    start = buffered.peek(8)
    opened = next((opened for magic, opened in _COMPRESSED.items() if start.startswith(magic)), None)
    return (opened(buffered), True) if opened else (buffered, False)


class _Borrowed(io.BufferedReader):
    """Reads a stream that is another's to close."""

    def close(self) -> None:
        """Leave it open; without this, it would be closed when this reader is forgotten."""


def _zstd(raw: BinaryIO) -> Any:
    try:
        import zstandard
    except ImportError:
        raise Invalid("reading .zst needs the zstandard package: pip install zstandard", field="path") from None
    return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)


# How a file that starts like this is read; its name says nothing.
_COMPRESSED: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": _zstd,
    b"\xfd7zXZ": lzma.LZMAFile,
}


class CutShort(Exception):
    """The compressed file ends, or breaks, before its content does."""


def read(stream: BinaryIO, size: int) -> bytes:
    """Up to `size` bytes.

    Raises: `CutShort`.
    """
    try:
        return stream.read(size)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise CutShort(str(error)) from error
    except Exception as error:  # zstandard's own error, whose class may not be installed
        if type(error).__name__ != "ZstdError":
            raise
        raise CutShort(str(error)) from error


def read_head(stream: BinaryIO, size: int = HEAD_BYTES) -> bytes:
    """The first `size` bytes, or all there are, however the stream portions them out."""
    head = b""
    while len(head) < size:
        try:
            more = read(stream, size - len(head))
        except CutShort:
            break
        if not more:
            break
        head += more
    return head


def chunks(
    stream: BinaryIO,
    offset: int,
    *,
    take_unterminated: bool,
    size: int = CHUNK_BYTES,
    left: list[int] | None = None,
    ends_at: Callable[[bytes, int], int | None] = lambda lines, offset: None,
    behind: list[bytes] | None = None,
) -> Iterator[Chunk]:
    """Whole lines of a stream that stands at `offset`.

    A line longer than `LONGEST_LINE` comes as a chunk of its own that holds only its beginning. The last line without
    an end is left for later unless `take_unterminated`, and always where the file is cut short; `left` then gets its
    length. `ends_at` is asked where among some lines, which begin at an offset, to stop, if anywhere; `behind` then
    gets what was read beyond.

    Raises: `CutShort`, after everything that could be read was given.
    """
    rest, broken = b"", None
    while True:
        try:
            more = read(stream, size)
        except CutShort as error:
            more, broken = b"", error
        if not more:
            break
        whole, end, tail = (rest + more).rpartition(b"\n")
        if end:
            stop = ends_at(whole + end, offset)
            yield from _without_long_lines((whole + end)[:stop], offset)
            if stop is not None and behind is not None:
                behind.append((whole + end)[stop:] + tail)
                return
            offset += len(whole) + 1
        rest = tail
        if len(rest) > LONGEST_LINE:
            length, beginning, ended, rest = _skip_line(stream, rest, size)
            if ended or take_unterminated:
                yield Chunk(offset, offset + length, beginning, too_long=True, terminated=ended)
            elif left is not None:
                left.append(length)
            offset += length
    whole, end, rest = rest.rpartition(b"\n")
    if end:
        yield from _without_long_lines(whole + end, offset)
        offset += len(whole) + 1
    if rest and take_unterminated and not broken:
        yield Chunk(offset, offset + len(rest), rest[:LONGEST_LINE], len(rest) > LONGEST_LINE, terminated=False)
    elif rest and left is not None:
        left.append(len(rest))
    if broken:
        raise broken


def _without_long_lines(lines: bytes, offset: int) -> Iterator[Chunk]:
    if not lines:
        return
    if max(map(len, lines.split(b"\n"))) <= LONGEST_LINE:
        yield Chunk(offset, offset + len(lines), lines)
        return
    for line in (line + b"\n" for line in lines.split(b"\n")[:-1]):
        too_long = len(line) > LONGEST_LINE + 1
        yield Chunk(offset, offset + len(line), line[:LONGEST_LINE] if too_long else line, too_long)
        offset += len(line)


def _skip_line(stream: BinaryIO, beginning: bytes, size: int) -> tuple[int, bytes, bool, bytes]:
    """Read on to the line's end without keeping it: its length, its beginning, whether it has an end, what follows."""
    length = len(beginning)
    while more := read(stream, size):
        line, end, rest = more.partition(b"\n")
        length += len(line) + len(end)
        if end:
            return length, beginning[:LONGEST_LINE], True, rest
    return length, beginning[:LONGEST_LINE], False, b""
