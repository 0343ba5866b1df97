"""Limits on the markup of a text, which bound the cost of rendering before the text is rendered.

A few kilobytes of table headers can make a million empty cells, and each bracket may begin a link. So the lines, marks
and table cells of the whole text are counted first, in one pass, without a parser. A count may be higher than the
number that the parser finds, but never lower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from squinney.content.documents import MAX_TEXT_LENGTH
from squinney.errors import Invalid

MARKS = "*_`[]!<>&\\|~#"


@dataclass(frozen=True)
class Limits:
    """The greatest number of lines, marks and table cells that a text may have."""

    lines: int
    marks: int
    cells: int


PAGE = Limits(lines=20_000, marks=50_000, cells=5_000)
COMMENT = Limits(lines=2_500, marks=2_000, cells=0)
# The number of marks and cells, which take 10 to 20 us each; a line counts as three.
COSTLY = 1_000


def checked(text: str, field: str, limits: Limits) -> str:
    """Return the text, or raise `Invalid` if it exceeds a limit."""
    for what, limit, count in _counts(text, limits):
        if count > limit:
            raise Invalid(f"{field} may have at most {limit} {what}; this has {count}", field=field, limit=limit)
    return text


def is_simple(text: str, limits: Limits) -> bool:
    """Return whether a text can be rendered in reasonable time; stored texts may be older than the limits."""
    return len(text) <= MAX_TEXT_LENGTH and all(count <= limit for _, limit, count in _counts(text, limits))


def is_costly(text: str) -> bool:
    """Return whether rendering the text would block the interpreter for more than some ten milliseconds."""
    lines, marks, cells = (count for _, _, count in _counts(text, PAGE))
    return 3 * lines + marks + cells > COSTLY


def _counts(text: str, limits: Limits) -> Iterator[tuple[str, int, int]]:
    """Yield what is counted, its limit and its number."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    yield "lines", limits.lines, len(lines)
    yield f"marks such as {' '.join(MARKS)}", limits.marks, sum(text.count(mark) for mark in MARKS)
    if limits.cells:
        yield "cells in its tables", limits.cells, _cells(lines)


def _cells(lines: list[str]) -> int:
    """Return the number of cells in all tables: each row below a delimiter row has a cell per column, even if empty."""
    cells = columns = 0
    above = ""
    for line in lines:
        if not line.strip():
            columns = 0
        elif "|" in above:
            columns = max(columns, _columns(line))
        cells += columns
        above = line
    return cells


def _columns(line: str) -> int:
    """Return the number of columns of a delimiter row, which a quote or list marker may precede."""
    dashes = line[len(line.rstrip("-:| \t")) :]
    return sum("-" in column for column in dashes.split("|"))
