"""Reading log files, plain or compressed, in chunks of whole lines and in bounded memory."""

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
MAX_LINE_LENGTH = 65_536
HEAD_BYTES = 1_024


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines that begin at an offset. A line that is `too_long` is a chunk of its own, with only its beginning.

    `header` is the earlier directive line that names the fields of these lines, in formats that have one.
    """

    offset: int
    end: int
    lines: bytes
    too_long: bool = False
    terminated: bool = True
    header: str = ""


def decompressed(raw: BinaryIO) -> tuple[BinaryIO, bool]:
    """Return the decompressed content as a stream, and whether it was compressed.

    Raises: `Invalid` if the library for the compression is not installed.
    """
    buffered: Any = raw if hasattr(raw, "peek") else _Borrowed(cast(io.RawIOBase, raw))
    start = buffered.peek(8)
    opened = next((opened for magic, opened in _COMPRESSED.items() if start.startswith(magic)), None)
    return (opened(buffered), True) if opened else (buffered, False)


class _Borrowed(io.BufferedReader):
    """A buffered reader that does not close the stream it reads."""

    def close(self) -> None:
        """Leave the stream open; by default it would be closed when this reader is garbage-collected."""


def _zstd(raw: BinaryIO) -> Any:
    try:
        import zstandard
    except ImportError:
        raise Invalid("reading .zst needs the zstandard package: pip install zstandard", field="path") from None
    return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)


# Readers by the first bytes of a file; its name is ignored.
_COMPRESSED: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": _zstd,
    b"\xfd7zXZ": lzma.LZMAFile,
}


class CutShort(Exception):
    """The compressed file is truncated or damaged."""


def read(stream: BinaryIO, size: int) -> bytes:
    """Read up to `size` bytes.

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
    """Read `size` bytes, or up to the end, even if the stream returns them in smaller portions."""
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


def chunks(stream: BinaryIO, offset: int, *, size: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Yield the lines of a stream, whose current position is `offset`.

    A line longer than `MAX_LINE_LENGTH` becomes a chunk of its own with only its beginning. A last line without a line
    end is a chunk of its own, too, but is left out if the file is truncated.

    Raises: `CutShort`, after all readable lines were yielded.
    """
    rest, broken = b"", None
    while True:
        try:
            more = read(stream, size)
        except CutShort as error:
            more, broken = b"", error
        whole, end, rest = (rest + more).rpartition(b"\n")
        if end:
            yield from _without_long_lines(whole + end, offset)
            offset += len(whole) + 1
        if not more:
            break
        if len(rest) > MAX_LINE_LENGTH:
            length, beginning, ended, rest = _skip_line(stream, rest, size)
            yield Chunk(offset, offset + length, beginning, too_long=True, terminated=ended)
            offset += length
    if broken:
        raise broken
    if rest:
        yield Chunk(offset, offset + len(rest), rest[:MAX_LINE_LENGTH], len(rest) > MAX_LINE_LENGTH, terminated=False)


def _without_long_lines(lines: bytes, offset: int) -> Iterator[Chunk]:
    if max(map(len, lines.split(b"\n"))) <= MAX_LINE_LENGTH:
        yield Chunk(offset, offset + len(lines), lines)
        return
    for line in (line + b"\n" for line in lines.split(b"\n")[:-1]):
        too_long = len(line) > MAX_LINE_LENGTH + 1
        yield Chunk(offset, offset + len(line), line[:MAX_LINE_LENGTH] if too_long else line, too_long)
        offset += len(line)


def _skip_line(stream: BinaryIO, beginning: bytes, size: int) -> tuple[int, bytes, bool, bytes]:
    """Read to the end of a long line without keeping the line in memory.

    Returns its length, its beginning, whether it has a line end, and the bytes read after it.
    """
    length = len(beginning)
    while more := read(stream, size):
        line, end, rest = more.partition(b"\n")
        length += len(line) + len(end)
        if end:
            return length, beginning[:MAX_LINE_LENGTH], True, rest
    return length, beginning[:MAX_LINE_LENGTH], False, b""
