"""How much markup a text may have: what showing it costs is bounded before it is rendered.

A few kilobytes of table headers make a million empty cells, and each bracket may begin a link. So lines, marks and
cells of the whole text are counted first, in one pass, without a parser. A count may be higher than what the parser
makes of the text, never lower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from squinney.content.nodes.documents import MOST_TEXT
from squinney.errors import Invalid

MARKS = "*_`[]!<>&\\|~#"


@dataclass(frozen=True)
class Most:
    """The greatest numbers of what takes time to render."""

    lines: int
    marks: int
    cells: int


PAGE = Most(lines=20_000, marks=50_000, cells=5_000)
COMMENT = Most(lines=2_500, marks=2_000, cells=0)
# Marks and cells, each of which takes 10 to 20 us, and lines, which count three times.
COSTLY = 1_000


def checked(text: str, field: str, most: Most) -> str:
    """A text, simple enough to be shown.

    Raises: `Invalid` naming the limit.
    """
    for what, limit, found in _counts(text, most):
        if found > limit:
            raise Invalid(f"{field} may have at most {limit} {what}; this has {found}", field=field, limit=limit)
    return text


def is_simple(text: str, most: Most) -> bool:
    """Whether a text, checked or not, can be rendered in reasonable time."""
    return len(text) <= MOST_TEXT and all(found <= limit for _, limit, found in _counts(text, most))


def is_costly(text: str) -> bool:
    """Whether rendering it would hold the interpreter for more than some ten milliseconds."""
    lines, marks, cells = (found for _, _, found in _counts(text, PAGE))
    return 3 * lines + marks + cells > COSTLY


def _counts(text: str, most: Most) -> Iterator[tuple[str, int, int]]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    yield "lines", most.lines, len(lines)
    yield f"marks such as {' '.join(MARKS)}", most.marks, sum(text.count(mark) for mark in MARKS)
    if most.cells:
        yield "cells in its tables", most.cells, _cells(lines)


def _cells(lines: list[str]) -> int:
    """The cells of all tables: each line below a row of dashes has as many as there are columns, typed or not."""
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
    """How many columns a row of dashes begins; a quote or a list may stand before it."""
    dashes = line[len(line.rstrip("-:| \t")) :]
    return sum("-" in column for column in dashes.split("|"))
