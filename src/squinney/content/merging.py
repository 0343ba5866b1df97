"""Three versions of a text: what two people changed, and one text with both changes where they are apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

OURS, BETWEEN, THEIRS = "<<<<<<< yours", "=======", ">>>>>>> theirs"


@dataclass(frozen=True)
class Merged:
    """The merged text, and how many places a person has to decide."""

    text: str
    conflicts: int


@dataclass(frozen=True)
class Line:
    """A line of a comparison: kept, added or removed."""

    kind: str
    text: str


def merge(base: str, yours: str, theirs: str) -> Merged:
    """Take each change that only one side made; where both changed the same lines, keep both between marks.

    Whether the last line was ended is no change: browsers and people do as they like there.
    """
    b, y, t = (_lines(text) for text in (base, yours, theirs))
    merged: list[str] = []
    conflicts = 0
    at_b = at_y = at_t = 0
    for low, high, in_y, in_t in _common(b, y, t):
        piece, conflict = _settled(b[at_b:low], y[at_y:in_y], t[at_t:in_t])
        merged += [*piece, *b[low:high]]
        conflicts += conflict
        at_b, at_y, at_t = high, in_y + high - low, in_t + high - low
    ended = any(text.endswith("\n") for text in (yours, theirs))
    return Merged("\n".join(merged) + ("\n" if merged and ended else ""), conflicts)


def _settled(base: list[str], yours: list[str], theirs: list[str]) -> tuple[list[str], int]:
    if yours in (base, theirs):
        return theirs, 0
    if theirs == base:
        return yours, 0
    return [OURS, *yours, BETWEEN, *theirs, THEIRS], 1


def _common(b: list[str], y: list[str], t: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """The stretches that all three have, in order; an empty one ends it."""
    in_y = SequenceMatcher(None, b, y, autojunk=False).get_matching_blocks()
    in_t = SequenceMatcher(None, b, t, autojunk=False).get_matching_blocks()
    i = j = 0
    while i < len(in_y) and j < len(in_t):
        one, other = in_y[i], in_t[j]
        low, high = max(one.a, other.a), min(one.a + one.size, other.a + other.size)
        if low < high:
            yield low, high, one.b + low - one.a, other.b + low - other.a
        if one.a + one.size < other.a + other.size:
            i += 1
        else:
            j += 1
    yield len(b), len(b), len(y), len(t)


def compare(before: str, after: str) -> list[Line]:
    """What changed, line by line."""
    b, a = _lines(before), _lines(after)
    found: list[Line] = []
    for what, b_low, b_high, a_low, a_high in SequenceMatcher(None, b, a, autojunk=False).get_opcodes():
        if what == "equal":
            found += [Line("kept", text) for text in b[b_low:b_high]]
            continue
        found += [Line("removed", text) for text in b[b_low:b_high]]
        found += [Line("added", text) for text in a[a_low:a_high]]
    return found


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
