"""Removal of metadata from WebM and Matroska videos: tags, where phones store the GPS position, and attached files.

Such a file is a sequence of elements with an id, a size and a body, which may have nested elements. Metadata elements
become `Void` elements of the same length, so that nothing else moves: the file refers to elements by byte position.
"""

from __future__ import annotations

from squinney.content.errors import BadMedia
from squinney.content.files.video_blanker import ENDLESS, VideoBlanker

TAGS, ATTACHMENTS = b"\x12\x54\xc3\x67", b"\x19\x41\xa4\x69"
SEGMENT = b"\x18\x53\x80\x67"  # the element around everything but the file's header
VOID = b"\xec"
MAX_ID_LENGTH, MAX_SIZE = 4, 8


class WebmBlanker(VideoBlanker):
    """Blanks the tags and attached files of a WebM video."""

    def _begin_part(self, done: bytearray) -> bool:
        id_bytes = _length(self._pending, 0, MAX_ID_LENGTH) or 0
        size_bytes = _length(self._pending, id_bytes, MAX_SIZE) if id_bytes else 0
        head = id_bytes + (size_bytes or 0)
        if size_bytes is None or len(self._pending) < head:
            return False
        if not size_bytes:  # not a valid element, so no player reads metadata from the rest
            self._left, self._is_blank = ENDLESS, False
            return True
        kind = bytes(self._pending[:id_bytes])
        size = _number(self._pending[id_bytes:head])
        # guard: a WebM's tags are blanked
        self._is_blank = kind in (TAGS, ATTACHMENTS)
        if self._is_blank and size is None:
            raise BadMedia("the video has tags or attached files of unknown size", field="file")
        # The elements in a segment, or in an element of unknown size, are handled as parts of their own.
        self._left = 0 if size is None or kind == SEGMENT else size
        done += _void(head, self._left) if self._is_blank else self._pending[:head]
        del self._pending[:head]
        return True


def _length(data: bytearray, at: int, longest: int) -> int | None:
    """Return the length of a variable-length number, which its leading zeros tell; 0 if invalid, None at the end."""
    if at >= len(data):
        return None
    zeros = 8 - data[at].bit_length()
    return zeros + 1 if zeros < longest else 0


def _number(data: bytearray) -> int | None:
    """Return a size; None if all its bits are set, which means unknown."""
    bits = 7 * len(data)
    value = int.from_bytes(data, "big") & ((1 << bits) - 1)
    return None if value == (1 << bits) - 1 else value


def _void(head: int, size: int) -> bytes:
    """Return the first `head` bytes of a `Void` element: its id of one byte, a size, and some of its zeros."""
    size_bytes = min(MAX_SIZE, head - len(VOID))
    spare = head - len(VOID) - size_bytes
    return VOID + ((1 << 7 * size_bytes) | (size + spare)).to_bytes(size_bytes, "big") + bytes(spare)
