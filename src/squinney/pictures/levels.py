"""A level over time, such as a sum of balances, with a cross for each kill."""

from __future__ import annotations

from collections.abc import Sequence

from squinney.pictures.svg import WIDTH, crosses, element, stretched

HEIGHT = 116
BASE_Y = 22.0
LOWEST_Y = 88.0
CROSSES_Y = 106
Point = tuple[float, float]  # a time and the level from then on


def level_chart(
    points: Sequence[Point],
    *,
    base: float,
    depth: float,
    seconds: float,
    kills: Sequence[float],
    title: str,
    marks: Sequence[float] = (),
) -> str:
    """Draw the level from 0 to `seconds`, green while it never left `base`; `depth` below it is at the bottom.

    `marks` are the shares of the time at which something new began.
    """
    is_kept = all(level == base for _, level in points)
    of = "kept" if is_kept else "left"
    drawn = _corners(points, base, depth, seconds)
    end = drawn[-1][0]
    line = element("path", of=f"level {of}", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in drawn))
    area = element(
        "path",
        of=f"area {of}",
        d=f"M0 {BASE_Y}L" + "L".join(f"{x:.1f} {y:.1f}" for x, y in drawn) + f"L{end:.1f} {BASE_Y}Z",
    )
    dashes = element("path", of="base", d=f"M0 {BASE_Y}H{WIDTH}")
    borders = "".join(element("path", of="mark", d=f"M{at * WIDTH:.1f} 4V{HEIGHT}") for at in marks)
    crossed = crosses([min(1.0, at / seconds) for at in kills], CROSSES_Y)
    inside = stretched(HEIGHT, borders, area, dashes, line) + crossed
    return element("svg", inside, of="level-chart", height=HEIGHT, role="img", aria_label=title)


def _corners(points: Sequence[Point], base: float, depth: float, seconds: float) -> list[tuple[float, float]]:
    """Return the corners of a line that keeps each level until the next one was measured."""
    drawn: list[tuple[float, float]] = []
    for at, level in points or [(0, base)]:
        x = min(1.0, at / seconds) * WIDTH
        if drawn:
            drawn.append((x, drawn[-1][1]))
        # What is created is drawn above the base, as far as there is room.
        drawn.append((x, max(4.0, BASE_Y + (base - level) / depth * (LOWEST_Y - BASE_Y))))
    return drawn
