"""Read a CircleMUD file line by line. Texts in it may have several lines and end with a tilde."""

from __future__ import annotations

import re

ENDS = ("$", "$~")


class BadLine(Exception):
    """A line does not match the format."""


class Lines:
    """The lines of a file, with a position that each reading method advances."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        # Not `splitlines`: it also splits at control characters that old worlds have in their texts.
        self._lines = re.split("\r\n|\n|\r", text.rstrip())
        self._next = 0

    @property
    def number(self) -> int:
        """The number of the line that was read last, from 1."""
        return self._next

    @property
    def at_end(self) -> bool:
        """True if all lines were read."""
        return self._next >= len(self._lines)

    def peek(self) -> str:
        """Return the next line without advancing."""
        return "" if self.at_end else self._lines[self._next].rstrip()

    def line(self) -> str:
        """Return the next line. Raises: `BadLine` at the end of the file."""
        if self.at_end:
            raise BadLine("unexpected end of the file")
        self._next += 1
        return self._lines[self._next - 1].rstrip()

    def nonempty(self) -> str:
        """Return the next line that is not empty."""
        line = self.line()
        while not line.strip():
            line = self.line()
        return line.strip()

    def text(self) -> str:
        """Return the text up to the line that ends with a tilde, joined into one line."""
        first, lines = self._next + 1, []
        while True:
            if self.at_end:
                raise BadLine(f"the text that starts in line {first} has no ~ at its end")
            line = self.line()
            if line.startswith("#") and line[1:].isdigit():  # the next record: a tilde is missing
                self._next -= 1
                raise BadLine(f"the text that starts in line {first} has no ~ at its end")
            if line.endswith("~"):
                lines.append(line[:-1])
                return " ".join(part.strip() for part in lines if part.strip())
            lines.append(line)

    def words(self, least: int) -> list[str]:
        """Return the words of the next line that is not empty. Raises: `BadLine` if there are fewer than `least`."""
        words = self.nonempty().split()
        if len(words) < least:
            raise BadLine(f"expected at least {least} values, found {len(words)}")
        return words

    @property
    def at_record(self) -> bool:
        """True if the next line starts a record, or the file ends."""
        return self.at_end or self.peek().startswith("#") or self.is_over

    @property
    def is_over(self) -> bool:
        """True if the next line marks the end of the file; old files have an empty record #99999 before that mark.

        The mark must be the whole line: a line of a text may start with `$` too.
        """
        following = self._lines[self._next + 1].strip() if self._next + 1 < len(self._lines) else ""
        return self.peek() in ENDS or (self.peek().startswith("#99999") and following in ENDS)

    def to_next_record(self) -> None:
        """Skip lines up to the one that starts the next record."""
        while not self.at_record:
            self._next += 1


def to_number(word: str) -> int:
    """Parse a whole number. Raises: `BadLine`."""
    try:
        return int(word)
    except ValueError:
        raise BadLine(f"{word[:40]!r} is not a number") from None


def leading_numbers(words: list[str]) -> list[int]:
    """Return the numbers before the first word that is not a number: the rest of the line is a comment."""
    numbers = []
    for word in words:
        if not word.lstrip("-").isdigit():
            break
        numbers.append(to_number(word))
    return numbers


def flags(word: str) -> int:
    """Parse a set of flags: a number, or letters of which `a` is the first bit. Raises: `BadLine`."""
    if word.lstrip("-").isdigit():
        return to_number(word)
    bits = 0
    for letter in word:
        if "a" <= letter <= "z":
            bits |= 1 << (ord(letter) - ord("a"))
        elif "A" <= letter <= "Z":
            bits |= 1 << (ord(letter) - ord("A") + 26)
        else:
            raise BadLine(f"{word[:40]!r} is not a set of flags")
    return bits
