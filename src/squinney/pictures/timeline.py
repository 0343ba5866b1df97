"""A timeline: a row for each worker, a bar for each run, and a cross where the worker was killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from squinney.pictures.svg import WIDTH, crosses, element, stretched

Outcome = Literal["done", "refused", "cut"]
OUTCOMES: tuple[Outcome, ...] = ("done", "refused", "cut")
HEIGHT = 18
MIN_BAR_WIDTH = 3.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One run, from its begin to its end, and how it ended. A run that is `cut` ended when its process was killed."""

    begin: float
    end: float
    outcome: Outcome


@dataclass(frozen=True)
class Row:
    """The runs of one worker, with what stands before them."""

    label: str
    bars: Sequence[Bar]


def timeline(rows: Sequence[Row], *, title: str, begin: float, end: float) -> str:
    """Draw the runs between `begin` and `end`. All times are in the same unit."""
    drawn = "".join(
        element("div", element("span", escape(row.label)), _bars(row, title, begin, end), of="timeline-row")
        for row in rows
    )
    return element("div", drawn, of="timeline")


def _bars(row: Row, title: str, begin: float, end: float) -> str:
    scale = WIDTH / max(end - begin, 1e-9)
    shown = [bar for bar in row.bars if bar.end > begin and bar.begin < end]
    paths = []
    for outcome in OUTCOMES:
        lines = [_line(bar, begin, scale) for bar in shown if bar.outcome == outcome]
        if lines:
            paths.append(element("path", of=f"run {outcome}", d="".join(lines)))
    kills = [(bar.end - begin) / (end - begin) for bar in shown if bar.outcome == "cut"]
    text = f"{title}, {row.label}: {len(shown)} runs, {len(kills)} killed"
    inside = stretched(HEIGHT, *paths) + crosses(kills, HEIGHT / 2)
    return element("svg", inside, of="timeline-bars", height=HEIGHT, role="img", aria_label=text)


def _line(bar: Bar, begin: float, scale: float) -> str:
    x = max(0.0, (bar.begin - begin) * scale)
    width = max(MIN_BAR_WIDTH, (bar.end - begin) * scale - x)
    return f"M{x:.1f} {HEIGHT // 2}h{width:.1f}"
