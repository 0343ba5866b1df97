"""Removal of metadata, such as the GPS position, from MP4 videos during the upload.

An MP4 file is a sequence of boxes. Metadata boxes become `free` boxes of the same length, so that nothing else moves:
the index (`moov`) has the byte positions of all frames. Only the index itself is held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from squinney.content.errors import BadMedia
from squinney.content.files.video_blanker import ENDLESS, VideoBlanker

MAX_INDEX_BYTES = 64 << 20
METADATA_IN_TRACKS = {b"udta", b"meta"}
METADATA = METADATA_IN_TRACKS | {b"uuid"}
INDEX = b"moov"


class Mp4Blanker(VideoBlanker):
    """Blanks the metadata boxes and metadata tracks of an MP4 video."""

    def finish(self) -> bytes:
        """Return the remaining bytes: a truncated box, or an index without a size."""
        if self._pending[4:8] == INDEX:
            _blank_metadata(self._pending, _header_bytes(self._pending), len(self._pending), METADATA)
        return super().finish()

    def _begin_part(self, done: bytearray) -> bool:
        header, size = _header_bytes(self._pending), _size(self._pending)
        if len(self._pending) < header:
            return False
        kind = bytes(self._pending[4:8])
        if kind == INDEX:
            if (len(self._pending) if size == ENDLESS else size) > MAX_INDEX_BYTES:
                message = f"the video's index may have at most {MAX_INDEX_BYTES} bytes"
                raise BadMedia(message, field="file", limit=MAX_INDEX_BYTES)
            if len(self._pending) < size:
                return False
            # guard: an MP4's metadata is blanked
            _blank_metadata(self._pending, header, size, METADATA)
        self._is_blank = kind in METADATA
        if self._is_blank:
            self._pending[4:8] = b"free"
        done += self._pending[:header]
        del self._pending[:header]
        self._left = max(size, header) - header
        return True


def _header_bytes(box: bytearray, at: int = 0) -> int:
    """Return the length of a box's header: the size, the kind, and for large boxes a 64-bit size."""
    return 16 if box[at : at + 4] == b"\0\0\0\1" else 8


def _size(box: bytearray, at: int = 0) -> int:
    size = int.from_bytes(box[at : at + 4], "big")
    if size == 1:
        return int.from_bytes(box[at + 8 : at + 16], "big")
    return size or ENDLESS  # 0: to the end of the file


def _boxes(body: bytearray, at: int, end: int) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield the kind, the start, the start of the content and the end of each box from `at` to `end`."""
    while at + 8 <= end:
        header, size = _header_bytes(body, at), min(_size(body, at), end - at)
        if size < header:  # not a valid box, so no player reads metadata from the rest
            return
        yield bytes(body[at + 4 : at + 8]), at, at + header, at + size
        at += size


def _blank_metadata(body: bytearray, at: int, end: int, kinds: set[bytes]) -> None:
    """Blank the metadata tracks, and the boxes of these kinds, among the boxes from `at` to `end`."""
    for kind, start, inner, after in _boxes(body, at, end):
        # guard: an MP4's metadata tracks are blanked
        if kind in kinds or (kind == b"trak" and _handler(body, inner, after) == b"meta"):
            body[start + 4 : start + 8] = b"free"
            body[inner:after] = bytes(after - inner)
        elif kind == b"trak":
            _blank_metadata(body, inner, after, METADATA_IN_TRACKS)


def _handler(body: bytearray, at: int, end: int) -> bytes:
    """Return the kind of a track: `vide`, `soun`, or `meta`, which may have the GPS positions of the camera."""
    for kind, _, inner, after in _boxes(body, at, end):
        if kind == b"mdia":
            return _handler(body, inner, after)
        if kind == b"hdlr":
            return bytes(body[inner + 8 : inner + 12])
    return b""
