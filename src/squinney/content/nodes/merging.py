"""Three versions of a text: what two people changed, and one text with both changes where they are apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import Match, SequenceMatcher

from squinney.errors import Invalid

MOST_PAIRS = 1_000_000
MOST_COMPARED = 20_000
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


def require_decided(text: str, field: str) -> None:
    """Nothing that `merge` left for a person to decide is in the text any more.

    Raises: `Invalid` naming the line.
    """
    lines = _lines(text)
    if OURS in lines and THEIRS in lines[lines.index(OURS) :]:
        at = lines.index(OURS) + 1
        raise Invalid(f"{field} still has both versions at line {at}: keep one, and remove the marks", field=field)


def _settled(base: list[str], yours: list[str], theirs: list[str]) -> tuple[list[str], int]:
    if yours in (base, theirs):
        return theirs, 0
    if theirs == base:
        return yours, 0
    return [OURS, *yours, BETWEEN, *theirs, THEIRS], 1


def _common(b: list[str], y: list[str], t: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """The stretches that all three have, in order; an empty one ends it."""
    in_y, in_t = _matching(b, y), _matching(b, t)
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
    at_b = at_a = 0
    for same in _matching(b, a):
        found += [Line("removed", text) for text in b[at_b : same.a]]
        found += [Line("added", text) for text in a[at_a : same.b]]
        at_b, at_a = same.a + same.size, same.b + same.size
        found += [Line("kept", text) for text in b[same.a : at_b]]
    return found


def _matching(one: list[str], other: list[str]) -> list[Match]:
    """The stretches that both have, in order; an empty one ends it.

    What is alike at both ends is taken off first, and where much is left, lines that come often are no place to begin a
    stretch: the search takes the square of the time, and a page must not keep a thread busy for an hour.
    """
    most = min(len(one), len(other))
    head = next((at for at in range(most) if one[at] != other[at]), most)
    tail = next((at for at in range(most - head) if one[-1 - at] != other[-1 - at]), most - head)
    left = one[head : len(one) - tail], other[head : len(other) - tail]
    between: list[Match] = []
    if max(len(lines) for lines in left) <= MOST_COMPARED:
        often = len(left[0]) * len(left[1]) > MOST_PAIRS
        between = SequenceMatcher(None, *left, autojunk=often).get_matching_blocks()[:-1]
    found = [Match(0, 0, head), *(Match(same.a + head, same.b + head, same.size) for same in between)]
    found.append(Match(len(one) - tail, len(other) - tail, tail))
    return [*(same for same in found if same.size), Match(len(one), len(other), 0)]


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
