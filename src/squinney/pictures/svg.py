"""What the pictures share: escaped elements, and crosses where something was killed."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

STATIC = Path(__file__).parent / "static"
STYLES = STATIC / "pictures.css"
WIDTH = 1_000  # of the part that is stretched to the width of the page
CROSS = "M-4-4 4 4M4-4-4 4"


def element(name: str, *inside: str, **attributes: object) -> str:
    """Return an element with escaped attributes; `inside` is HTML. Write `_` for a hyphen, and `of` for `class`."""
    named = {name.replace("_", "-"): value for name, value in attributes.items() if value is not None}
    given = "".join(f' {"class" if key == "of" else key}="{escape(str(value))}"' for key, value in named.items())
    return f"<{name}{given}>{''.join(inside)}</{name}>"


def stretched(height: int, *inside: str) -> str:
    """Return a part of a picture that is as wide as the picture; its coordinates go from 0 to `WIDTH`."""
    box = f"0 0 {WIDTH} {height}"
    return element("svg", *inside, viewBox=box, preserveAspectRatio="none", width="100%", height=height)


def crosses(shares: Iterable[float], y: float) -> str:
    """Return a cross at each of these shares of the width; unlike what is stretched, it keeps its form."""
    return "".join(
        element(
            "svg",
            element("path", of="cross", d=CROSS),
            x=f"{min(max(share, 0.005), 0.995):.2%}",
            y=y,
            overflow="visible",
        )
        for share in shares
    )
