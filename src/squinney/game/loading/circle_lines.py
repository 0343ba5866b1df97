"""Lines of a CircleMUD file, with their numbers; texts end with a tilde."""

from __future__ import annotations

import re

ENDS = ("$", "$~")


class BadLine(Exception):
    """A line is not what the format has there."""


class Lines:
    """Reads on from line to line."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        # Not `splitlines`: that also ends a line at characters which old worlds have in their texts.
        self._lines = re.split("\r\n|\n|\r", text.rstrip())
        self._next = 0

    @property
    def number(self) -> int:
        """That of the line read last, from 1."""
        return self._next

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self._next >= len(self._lines)

    def peek(self) -> str:
        """The next line, which stays the next."""
        return "" if self.at_end else self._lines[self._next].rstrip()

    def line(self) -> str:
        """The next line. Raises `BadLine` at the end of the file."""
        if self.at_end:
            raise BadLine("the file ends here")
        self._next += 1
        return self._lines[self._next - 1].rstrip()

    def filled(self) -> str:
        """The next line that is not empty."""
        line = self.line()
        while not line.strip():
            line = self.line()
        return line.strip()

    def text(self) -> str:
        """Everything up to a tilde at the end of a line, as one text."""
        began, found = self._next + 1, []
        while True:
            if self.at_end:
                raise BadLine(f"the text that begins in line {began} has no ~")
            line = self.line()
            if line.startswith("#") and line[1:].isdigit():  # the next record: a tilde is missing
                self._next -= 1
                raise BadLine(f"the text that begins in line {began} has no ~")
            if line.endswith("~"):
                found.append(line[:-1])
                return " ".join(part.strip() for part in found if part.strip())
            found.append(line)

    def words(self, least: int) -> list[str]:
        """The words of the next line that is not empty, at least so many."""
        found = self.filled().split()
        if len(found) < least:
            raise BadLine(f"{least} values are wanted here, not {len(found)}")
        return found

    @property
    def at_record(self) -> bool:
        """Whether the next line begins a record, or the file ends. A text may have a `$` at the beginning of a line."""
        return self.at_end or self.peek().startswith("#") or self.is_over

    @property
    def is_over(self) -> bool:
        """Whether the next line says that nothing more comes; old files have a last record with nothing in it."""
        following = self._lines[self._next + 1].strip() if self._next + 1 < len(self._lines) else ""
        return self.peek() in ENDS or (self.peek().startswith("#99999") and following in ENDS)

    def to_next_record(self) -> None:
        """Go to the next line that begins a record."""
        while not self.at_record:
            self._next += 1


def whole(word: str) -> int:
    """A whole number. Raises `BadLine` where it is none."""
    try:
        return int(word)
    except ValueError:
        raise BadLine(f"{word[:40]!r} is no number") from None


def leading_numbers(words: list[str]) -> list[int]:
    """Those before the first word that is none: what follows is a remark."""
    found = []
    for word in words:
        if not word.lstrip("-").isdigit():
            break
        found.append(whole(word))
    return found


def bits(word: str) -> int:
    """A set of flags: a number, or letters of which `a` is the first bit."""
    if word.lstrip("-").isdigit():
        return whole(word)
    found = 0
    for letter in word:
        if "a" <= letter <= "z":
            found |= 1 << (ord(letter) - ord("a"))
        elif "A" <= letter <= "Z":
            found |= 1 << (ord(letter) - ord("A") + 26)
        else:
            raise BadLine(f"{word[:40]!r} is no set of flags")
    return found
