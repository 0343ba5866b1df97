"""A filter for uploaded videos that blanks some parts. The others keep their positions, which the files refer to."""

from __future__ import annotations

from abc import ABC, abstractmethod

ENDLESS = 1 << 62  # the length of a part that extends to the end of the file


class VideoBlanker(ABC):
    """Takes a video in pieces and returns it with the same length. Subclasses decide which parts are blanked."""

    def __init__(self) -> None:
        self._pending = bytearray()  # received, but not returned yet
        self._left = 0  # bytes of the current part that are still to be returned
        self._is_blank = False  # whether the current part is blanked

    def feed(self, piece: bytes) -> bytes:
        """Add a piece of the video and return the bytes that are decided.

        Raises: `BadMedia` if the file's structure does not show what to blank.
        """
        if len(piece) <= self._left and not self._is_blank:  # most pieces are within one part: no copy
            self._left -= len(piece)
            return piece
        self._pending += piece
        done = bytearray()
        while self._pending and (self._left or self._begin_part(done)):
            done += self._take_from_part()
        return bytes(done)

    def finish(self) -> bytes:
        """Return the remaining bytes at the end of the video: a truncated part."""
        rest, self._pending = bytes(self._pending), bytearray()
        return rest

    @abstractmethod
    def _begin_part(self, done: bytearray) -> bool:
        """Move the header of the next part from the pending bytes to `done`; return False if it is incomplete."""

    def _take_from_part(self) -> bytes:
        count = min(self._left, len(self._pending))
        piece = bytes(count) if self._is_blank else bytes(self._pending[:count])
        del self._pending[:count]
        self._left -= count
        return piece
