"""Name what went wrong in a schedule, if it has a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

LOST_UPDATE = "lost update"
WRITE_SKEW = "write skew"
DIRTY_READ = "dirty read"
LOST_WRITE = "lost write"
DOUBLE_APPLY = "double apply"


@dataclass(frozen=True)
class Touched:
    """What one step of a schedule read and changed: documents by collection and id."""

    letter: str
    kind: str
    read: frozenset[str]
    changed: frozenset[str]
    statement: str = ""


def anomaly_in(steps: Sequence[Touched]) -> tuple[str, int]:
    """Return the name of the anomaly and the number of the step with which it happens; `("", -1)` if it has none."""
    for find in (_double_apply, _dirty_read, _lost_update, _write_skew, _lost_write):
        name, at = find(steps)
        if name:
            return name, at
    return "", -1


def _double_apply(steps: Sequence[Touched]) -> tuple[str, int]:
    """A write whose reply was lost is sent again, and changes the same document once more."""
    for first, lost in enumerate(steps):
        if lost.kind == "lost-reply":
            for at, step in enumerate(steps[first + 1 :], first + 1):
                if step.letter == lost.letter and step.changed & lost.changed:
                    return DOUBLE_APPLY, at
    return "", -1


def _dirty_read(steps: Sequence[Touched]) -> tuple[str, int]:
    """An operation reads what another one has written that dies before it is done."""
    for at, step in enumerate(steps):
        for written in steps[:at]:
            if written.letter != step.letter and step.read & written.changed and _dies_after(steps, at, written.letter):
                return DIRTY_READ, at
    return "", -1


def _dies_after(steps: Sequence[Touched], at: int, letter: str) -> bool:
    return any(step.letter == letter and step.kind == "death" for step in steps[at:])


def _lost_update(steps: Sequence[Touched]) -> tuple[str, int]:
    """An operation changes a document by what it has read, though another one has changed it since."""
    for at, step in enumerate(steps):
        for began, read in enumerate(steps[:at]):
            if read.letter == step.letter and (same := read.read & step.changed):
                between = (other for other in steps[began + 1 : at] if other.letter != step.letter)
                if any(other.changed & same for other in between):
                    return LOST_UPDATE, at
    return "", -1


def _write_skew(steps: Sequence[Touched]) -> tuple[str, int]:
    """Two operations read the same documents, and each changes another one of them."""
    for first, second in combinations(sorted({step.letter for step in steps}), 2):
        read, changed = (
            {
                letter: frozenset().union(*(getattr(step, what) for step in steps if step.letter == letter))
                for letter in (first, second)
            }
            for what in ("read", "changed")
        )
        if read[first] & changed[second] and read[second] & changed[first] and not changed[first] & changed[second]:
            last = max(at for at, step in enumerate(steps) if step.changed)
            return WRITE_SKEW, last
    return "", -1


def _lost_write(steps: Sequence[Touched]) -> tuple[str, int]:
    """An operation dies, or gives up after a lost reply, between its writes: the later ones are lost."""
    for at, step in enumerate(steps):
        if step.kind == "death" and any(other.letter == step.letter and other.changed for other in steps[:at]):
            return LOST_WRITE, at
        if step.kind == "lost-reply" and step.changed and all(other.letter != step.letter for other in steps[at + 1 :]):
            return LOST_WRITE, at
    return "", -1
