"""Videos without the place where they were taken: what a camera notes beside the pictures is blanked on its way in.

An MP4 file is a row of boxes. Those for notes become `free` boxes of the same length, so that nothing else moves: the
index says at which byte each picture is. Only the index itself is held in memory.
"""

from __future__ import annotations

from squinney.content.errors import BadMedia
from squinney.content.files.blanked_videos import ENDLESS, BlankedVideo

MOST_INDEX_BYTES = 64 << 20
NOTES = {b"udta", b"meta"}
NOTES_ABOVE_TRACKS = NOTES | {b"uuid"}
INDEX = b"moov"


class WithoutPlace(BlankedVideo):
    """An MP4 video without notes and tracks of places."""

    def finish(self) -> bytes:
        """What is left at the end: a box that was cut short, or an index that goes on to the end."""
        if self._waiting[4:8] == INDEX:
            _blank_notes(self._waiting, _header_bytes(self._waiting), len(self._waiting), NOTES_ABOVE_TRACKS)
        return super().finish()

    def _begin_part(self, done: bytearray) -> bool:
        header, size = _header_bytes(self._waiting), _size(self._waiting)
        if len(self._waiting) < header:
            return False
        kind = bytes(self._waiting[4:8])
        if kind == INDEX:
            if (len(self._waiting) if size == ENDLESS else size) > MOST_INDEX_BYTES:
                raise BadMedia("the video's index is too large", field="file", limit=MOST_INDEX_BYTES)
            if len(self._waiting) < size:
                return False
            _blank_notes(self._waiting, header, size, NOTES_ABOVE_TRACKS)
        self._is_blank = kind in NOTES_ABOVE_TRACKS
        if self._is_blank:
            self._waiting[4:8] = b"free"
        done += self._waiting[:header]
        del self._waiting[:header]
        self._left = max(size, header) - header
        return True


def _header_bytes(box: bytearray, at: int = 0) -> int:
    """How long the head of a box is: its size, its kind, and a longer size where that does not fit."""
    return 16 if box[at : at + 4] == b"\0\0\0\1" else 8


def _size(box: bytearray, at: int = 0) -> int:
    size = int.from_bytes(box[at : at + 4], "big")
    if size == 1:
        return int.from_bytes(box[at + 8 : at + 16], "big")
    return size or ENDLESS  # 0: to the end of the file


def _blank_notes(body: bytearray, at: int, end: int, notes: set[bytes]) -> None:
    """Blank the notes among the boxes from `at` to `end`, and the tracks that are notes."""
    while at + 8 <= end:
        header, size = _header_bytes(body, at), min(_size(body, at), end - at)
        kind = bytes(body[at + 4 : at + 8])
        if size < header:  # no box: whatever this is, no player finds notes in it
            return
        if kind in notes or (kind == b"trak" and _handler(body, at + header, at + size) == b"meta"):
            body[at + 4 : at + 8] = b"free"
            body[at + header : at + size] = bytes(size - header)
        elif kind == b"trak":
            _blank_notes(body, at + header, at + size, NOTES)
        at += size


def _handler(body: bytearray, at: int, end: int) -> bytes:
    """What kind of track it is: `vide`, `soun`, or `meta`, such as the path that a camera took."""
    while at + 8 <= end:
        header, size = _header_bytes(body, at), min(_size(body, at), end - at)
        kind = body[at + 4 : at + 8]
        if kind == b"mdia":
            return _handler(body, at + header, at + size)
        if kind == b"hdlr":
            return bytes(body[at + header + 8 : at + header + 12])
        at += max(size, 8)
    return b""
