"""WebM and Matroska videos without their notes: tags, where cameras and phones write the place, and attached files.

Such a file is a row of elements, each an id, a size and a body, some with elements within. Those for notes become
`Void` elements of the same length, so that nothing else moves: the file says of many elements at which byte they are.
"""

from __future__ import annotations

from squinney.content.errors import BadMedia
from squinney.content.files.blanked_videos import ENDLESS, BlankedVideo

TAGS, ATTACHMENTS = b"\x12\x54\xc3\x67", b"\x19\x41\xa4\x69"
SEGMENT = b"\x18\x53\x80\x67"  # everything but the head of the file is in it
VOID = b"\xec"
LONGEST_ID, LONGEST_SIZE = 4, 8


class WithoutNotes(BlankedVideo):
    """A WebM video without notes."""

    def _begin_part(self, done: bytearray) -> bool:
        id_bytes = _length(self._waiting, 0, LONGEST_ID) or 0
        size_bytes = _length(self._waiting, id_bytes, LONGEST_SIZE) if id_bytes else 0
        head = id_bytes + (size_bytes or 0)
        if size_bytes is None or len(self._waiting) < head:
            return False
        if not size_bytes:  # no element: whatever this is, no player finds notes in it
            self._left, self._is_blank = ENDLESS, False
            return True
        kind = bytes(self._waiting[:id_bytes])
        size = _number(self._waiting[id_bytes:head])
        self._is_blank = kind in (TAGS, ATTACHMENTS)
        if self._is_blank and size is None:
            raise BadMedia("the video has notes without an end", field="file")
        self._left = 0 if size is None or kind == SEGMENT else size  # one whose size is not known is gone into
        done += _void(head, self._left) if self._is_blank else self._waiting[:head]
        del self._waiting[:head]
        return True


def _length(text: bytearray, at: int, longest: int) -> int | None:
    """How many bytes a number there has, by the zeros it begins with; 0 where it is none, None where the text ends."""
    if at >= len(text):
        return None
    zeros = 8 - text[at].bit_length()
    return zeros + 1 if zeros < longest else 0


def _number(text: bytearray) -> int | None:
    """A size; None where all its bits are set, which says that it is not known."""
    bits = 7 * len(text)
    value = int.from_bytes(text, "big") & ((1 << bits) - 1)
    return None if value == (1 << bits) - 1 else value


def _void(head: int, size: int) -> bytes:
    """The head of a `Void` element in place of a longer id: its size takes what the id leaves."""
    size_bytes = min(LONGEST_SIZE, head - len(VOID))
    spare = head - len(VOID) - size_bytes
    return VOID + ((1 << 7 * size_bytes) | (size + spare)).to_bytes(size_bytes, "big") + bytes(spare)
