"""Bar charts as SVG, drawn on the server. The style sheet has the colours: the site's policy forbids inline styles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 720, 208
LEFT, RIGHT, TOP, BOTTOM = 58, 8, 14, 38
LABELS = 6


@dataclass(frozen=True)
class Bar:
    """One bar. `label` is printed below it where there is room; `hint` is its tooltip."""

    label: str
    value: float
    hint: str


def bar_chart(bars: Sequence[Bar], *, title: str) -> Markup:
    """Draw a bar chart whose scale has round numbers."""
    top = _round_up(max((bar.value for bar in bars), default=0))
    width = (WIDTH - LEFT - RIGHT) / max(1, len(bars))
    parts = [_scale(top)]
    every = max(1, -(-len(bars) // LABELS))
    for number, bar in enumerate(bars):
        parts.append(_bar(bar, LEFT + number * width, width, top))
        if number % every == 0:
            parts.append(_text(bar.label, LEFT + (number + 0.5) * width, HEIGHT - 9, "middle"))
    total = sum(bar.value for bar in bars)
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}: {:,.0f} in all">{}</svg>').format(
        WIDTH, HEIGHT, title, total, Markup("").join(parts)
    )


def _bar(bar: Bar, x: float, width: float, top: float) -> Markup:
    height = (HEIGHT - TOP - BOTTOM) * bar.value / top
    return Markup(
        '<g><title>{}</title><rect class="reach" x="{:.2f}" y="{}" width="{:.2f}" height="{}"/>'
        '<rect class="bar" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"/></g>'
    ).format(
        bar.hint, x, TOP, width, HEIGHT - TOP - BOTTOM, x + width * 0.1, HEIGHT - BOTTOM - height, width * 0.8, height
    )


def _scale(top: float) -> Markup:
    lines = Markup("")
    for quarter in range(5):
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * quarter / 4
        lines += Markup('<line class="rule" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
            LEFT, WIDTH - RIGHT, y, y
        )
        if quarter % 2 == 0:
            lines += _text(short(top * quarter / 4), LEFT - 6, y + 4, "end")
    return lines


def _text(text: str, x: float, y: float, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, escape(text))


def _round_up(value: float) -> float:
    """Return the next 1, 2, 4 or 8 times a power of ten: a half and a quarter of it are easy to read."""
    scale = 1.0
    while True:
        for step in (1, 2, 4, 8):
            if value <= scale * step:
                return max(4.0, scale * step)
        scale *= 10


def short(value: float) -> str:
    """Format a number in at most five characters, such as `1.25M`."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
