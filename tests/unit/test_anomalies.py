"""The names of what goes wrong in a schedule."""

from __future__ import annotations

import pytest

from squinney.testing.explorer.anomalies import Touched, anomaly_in


def steps(text: str) -> list[Touched]:
    """Read steps such as `a r:x`, `a w:x`, `a? w:x` (its reply is lost) and `a!` (it dies)."""
    found = []
    for one in text.split(", "):
        who, _, touched = one.partition(" ")
        verb, _, documents = touched.partition(":")
        names = frozenset(documents)
        kind = {"!": "death", "?": "lost-reply"}.get(who[-1], "command")
        read, changed = (names if verb == "r" else frozenset()), (names if verb == "w" else frozenset())
        found.append(Touched(who[0], kind, read, changed))
    return found


@pytest.mark.parametrize(
    ("schedule", "anomaly", "at"),
    [
        ("a r:x, b r:x, b w:x, a w:x", "lost update", 3),
        ("a r:xy, b r:xy, a w:x, b w:y", "write skew", 3),
        ("a w:x, b r:x, a!", "dirty read", 1),
        ("a w:x, a!", "lost write", 1),
        ("a? w:x, b r:y", "lost write", 0),
        ("a? w:x, a w:x", "double apply", 1),
        ("a r:x, a w:x, b r:x, b w:x", "", -1),
        ("a r:x, a!, b r:x, b w:x", "", -1),
    ],
)
def test_an_anomaly_has_its_name_and_its_step(schedule: str, anomaly: str, at: int) -> None:
    assert anomaly_in(steps(schedule)) == (anomaly, at)
