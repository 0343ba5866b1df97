"""Three-way merge and line-by-line comparison of texts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import Match, SequenceMatcher

from squinney.errors import Invalid

MAX_PAIRS = 100_000
OURS, BETWEEN, THEIRS = "<<<<<<< yours", "=======", ">>>>>>> theirs"


@dataclass(frozen=True)
class Merged:
    """The merged text, and the number of conflicts that a person must resolve."""

    text: str
    conflicts: int


@dataclass(frozen=True)
class Line:
    """A line of a comparison: kept, added or removed."""

    kind: str
    text: str


def merge(base: str, yours: str, theirs: str) -> Merged:
    """Merge two edited versions of `base`; where both changed the same lines, keep both between conflict markers.

    A missing newline at the end of the text does not count as a change, because browsers and users vary there.
    """
    b, y, t = (_lines(text) for text in (base, yours, theirs))
    merged: list[str] = []
    conflicts = 0
    at_b = at_y = at_t = 0
    for low, high, in_y, in_t in _common(b, y, t):
        piece, conflict = _merged_piece(b[at_b:low], y[at_y:in_y], t[at_t:in_t])
        merged += [*piece, *b[low:high]]
        conflicts += conflict
        at_b, at_y, at_t = high, in_y + high - low, in_t + high - low
    ended = any(text.endswith("\n") for text in (yours, theirs))
    return Merged("\n".join(merged) + ("\n" if merged and ended else ""), conflicts)


def require_resolved(text: str, field: str) -> None:
    """Require that the text has no conflict markers of `merge`, or raise `Invalid` with the line."""
    lines = _lines(text)
    if OURS in lines and THEIRS in lines[lines.index(OURS) :]:
        at = lines.index(OURS) + 1
        raise Invalid(f"{field} still has both versions at line {at}: keep one and remove the markers", field=field)


def _merged_piece(base: list[str], yours: list[str], theirs: list[str]) -> tuple[list[str], int]:
    if yours in (base, theirs):
        return theirs, 0
    if theirs == base:
        return yours, 0
    return [OURS, *yours, BETWEEN, *theirs, THEIRS], 1


def _common(b: list[str], y: list[str], t: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the stretches of lines that all three texts share, in order, and an empty one at the end.

    Each is given as its start and end in `b`, its start in `y` and its start in `t`.
    """
    in_y, in_t = _matching(b, y), _matching(b, t)
    i = j = 0
    while i < len(in_y) and j < len(in_t):
        yours, theirs = in_y[i], in_t[j]
        low, high = max(yours.a, theirs.a), min(yours.a + yours.size, theirs.a + theirs.size)
        if low < high:
            yield low, high, yours.b + low - yours.a, theirs.b + low - theirs.a
        if yours.a + yours.size < theirs.a + theirs.size:
            i += 1
        else:
            j += 1
    yield len(b), len(b), len(y), len(t)


def compare(before: str, after: str) -> list[Line]:
    """Return the lines of both texts, each marked as kept, added or removed."""
    b, a = _lines(before), _lines(after)
    lines: list[Line] = []
    at_b = at_a = 0
    for same in _matching(b, a):
        lines += [Line("removed", text) for text in b[at_b : same.a]]
        lines += [Line("added", text) for text in a[at_a : same.b]]
        at_b, at_a = same.a + same.size, same.b + same.size
        lines += [Line("kept", text) for text in b[same.a : at_b]]
    return lines


def _matching(left: list[str], right: list[str]) -> list[Match]:
    """Return the stretches of lines that both texts share, in order, and an empty one at the end.

    The common beginning and end of the texts are found first, because most edits change only a part in the middle.
    """
    most = min(len(left), len(right))
    head = next((at for at in range(most) if left[at] != right[at]), most)
    tail = next((at for at in range(most - head) if left[-1 - at] != right[-1 - at]), most - head)
    middle = _matching_middle(left[head : len(left) - tail], right[head : len(right) - tail])
    matches = [Match(0, 0, head), *(Match(same.a + head, same.b + head, same.size) for same in middle)]
    matches.append(Match(len(left) - tail, len(right) - tail, tail))
    return [*(same for same in matches if same.size), Match(len(left), len(right), 0)]


def _matching_middle(left: list[str], right: list[str]) -> Iterator[Match]:
    """Yield the stretches that both texts share, for texts whose first and last lines differ.

    Comparing all pairs of lines takes quadratic time: minutes for 20,000 lines. So in long texts, lines that occur
    exactly once in both are matched first, and only short gaps between these anchors are searched.
    """
    begin_left = begin_right = 0
    for at, to in [*_anchors(left, right), (len(left), len(right))]:
        gap = left[begin_left:at], right[begin_right:to]
        if 0 < len(gap[0]) * len(gap[1]) <= MAX_PAIRS:
            for same in SequenceMatcher(None, *gap, autojunk=False).get_matching_blocks()[:-1]:
                yield Match(begin_left + same.a, begin_right + same.b, same.size)
        if at < len(left):
            yield Match(at, to, 1)
        begin_left, begin_right = at + 1, to + 1


def _anchors(left: list[str], right: list[str]) -> list[tuple[int, int]]:
    """Return the positions of lines that occur once in each text, as many as are in the same order in both."""
    if len(left) * len(right) <= MAX_PAIRS:  # short enough to compare all lines
        return []
    times_in_left, times_in_right = Counter(left), Counter(right)
    where = {line: at for at, line in enumerate(right) if times_in_right[line] == 1}
    pairs = [(at, where[line]) for at, line in enumerate(left) if line in where and times_in_left[line] == 1]
    return _longest_increasing(pairs)


def _longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs in which the second numbers increase, by patience sorting."""
    ends: list[int] = []  # for each length, the smallest number that ends a subsequence of that length
    last: list[int] = []  # and the index of its pair
    previous: list[int] = []
    for index, (_, to) in enumerate(pairs):
        length = bisect_left(ends, to)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [to]
        last[length : length + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(pairs[index])
        index = previous[index]
    return chain[::-1]


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
