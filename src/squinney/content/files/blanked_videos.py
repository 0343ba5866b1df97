"""A video on its way in: a row of parts, some of them blanked. Nothing moves: files say at which byte a part is."""

from __future__ import annotations

from abc import ABC, abstractmethod

ENDLESS = 1 << 62  # the length of a part that goes on to the end of the file


class BlankedVideo(ABC):
    """Takes a video piece by piece, and gives it back as long as it was. Its kinds say which parts are blanked."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._left = 0  # of the part that is on its way
        self._is_blank = False

    def feed(self, piece: bytes) -> bytes:
        """What can be given back after this piece.

        Raises: `BadMedia` where it cannot be told what to blank.
        """
        if len(piece) <= self._left and not self._is_blank:  # most pieces are inside the pictures: no copy
            self._left -= len(piece)
            return piece
        self._waiting += piece
        done = bytearray()
        while self._waiting and (self._left or self._begin_part(done)):
            done += self._rest_of_part()
        return bytes(done)

    def finish(self) -> bytes:
        """What is left at the end: a part that was cut short."""
        rest, self._waiting = bytes(self._waiting), bytearray()
        return rest

    @abstractmethod
    def _begin_part(self, done: bytearray) -> bool:
        """Move the head of the next part from what waits to what is done, if enough of it is there."""

    def _rest_of_part(self) -> bytes:
        count = min(self._left, len(self._waiting))
        piece = bytes(count) if self._is_blank else bytes(self._waiting[:count])
        del self._waiting[:count]
        self._left -= count
        return piece
