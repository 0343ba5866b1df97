"""Covers of records and films, drawn as SVG from title and genre: the same title always gets the same cover."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from html import escape

SIDE = 640
Draw = Callable[[random.Random, list[str]], str]
# Background, two middle tones, a light one and an accent for each palette.
PALETTES = [
    ["#12263a", "#1f4e6b", "#4f86a0", "#f4e3c1", "#e9724c"],
    ["#2b1d3a", "#5b2a6b", "#a23b72", "#f6d7c3", "#f5b841"],
    ["#0f2f2b", "#1f6b5b", "#6bb39b", "#f1ead2", "#e4572e"],
    ["#3a1414", "#7a2320", "#c5563c", "#f7e6c9", "#f2b134"],
    ["#1c1c28", "#3b3b5c", "#7d7da8", "#ececf5", "#ef476f"],
    ["#23301a", "#4d6b2f", "#93ab5f", "#f3efd6", "#d9733c"],
    ["#2a2320", "#6b5344", "#b89b7d", "#f5ecdf", "#3f88c5"],
    ["#0b1b33", "#23467a", "#5e8bc4", "#dfeaf7", "#ffc145"],
]


def cover(title: str, maker: str, genre: str, number: int) -> bytes:
    """Return the cover as SVG. `number` separates covers that would otherwise share palette and motif."""
    rng = random.Random(f"{title}/{maker}/{genre}")
    palette = PALETTES[(number * 5 + len(title)) % len(PALETTES)]
    picture = MOTIFS[genre](rng, palette)
    text = _lettering(title, maker, palette, at_top=rng.random() < 0.4)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {SIDE}" width="{SIDE}" height="{SIDE}">'
    return f'{head}<rect width="{SIDE}" height="{SIDE}" fill="{palette[0]}"/>{picture}{text}</svg>'.encode()


def _lettering(title: str, maker: str, palette: list[str], *, at_top: bool) -> str:
    lines = _wrapped(title, 15)
    size = 58 if max(map(len, lines)) <= 12 else 48
    first = 76 if at_top else SIDE - 76 - (len(lines) - 1) * size
    y0, height = (0, 110 + len(lines) * size) if at_top else (first - size - 14, SIDE)
    band = f'<rect y="{y0}" width="{SIDE}" height="{height}" fill="{palette[0]}" opacity=".78"/>'
    style = f'fill="{palette[3]}" font-family="Georgia,serif" font-weight="700" font-size="{size}"'
    spans = "".join(
        f'<text x="36" y="{first + row * size}" {style}>{escape(line)}</text>' for row, line in enumerate(lines)
    )
    under = first + (len(lines) - 1) * size + 44
    small = f'fill="{palette[4]}" font-family="Helvetica,Arial,sans-serif" font-size="25" letter-spacing="1"'
    return f'{band}{spans}<text x="38" y="{under}" {small}>{escape(maker)}</text>'


def _wrapped(title: str, width: int) -> list[str]:
    lines = [""]
    for word in title.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


# ---- motifs ----


def _circle(x: float, y: float, r: float, colour: str, more: str = "") -> str:
    return f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{r:.0f}" fill="{colour}" {more}/>'


def _bars(rng: random.Random, palette: list[str]) -> str:
    """Jazz: blocks in syncopation."""
    count = rng.randint(5, 11)
    width = SIDE / count
    blocks = ""
    for column in range(count):
        top = rng.randint(40, 400)
        colour = rng.choice(palette[1:])
        blocks += f'<rect x="{column * width:.0f}" y="{top}" width="{width * 0.82:.0f}" height="{SIDE - top}" '
        blocks += f'rx="{rng.choice([0, 6, 40])}" fill="{colour}"/>'
    sun = _circle(rng.randint(100, 540), rng.randint(70, 200), rng.randint(40, 90), palette[4])
    return blocks + sun


def _hills(rng: random.Random, palette: list[str]) -> str:
    """Folk: hills in layers under a sun or a moon."""
    picture = f'<rect width="{SIDE}" height="{SIDE}" fill="{palette[3]}"/>'
    picture += _circle(rng.randint(120, 520), rng.randint(110, 240), rng.randint(45, 95), palette[4])
    for layer, colour in enumerate((palette[2], palette[1], palette[0])):
        base, reach, phase = 260 + layer * 90, rng.randint(25, 75), rng.uniform(0, 6)
        waves = rng.uniform(1.0, 2.6)
        points = [(x, base + reach * math.sin(phase + waves * x / 120)) for x in range(0, SIDE + 20, 20)]
        line = " ".join(f"{x},{y:.0f}" for x, y in points)
        picture += f'<polygon points="0,{SIDE} {line} {SIDE},{SIDE}" fill="{colour}"/>'
    return picture


def _shards(rng: random.Random, palette: list[str]) -> str:
    """Rock: shards that fly from one point."""
    x0, y0 = rng.randint(180, 460), rng.randint(180, 400)
    picture = ""
    angle = rng.uniform(0, 1)
    while angle < 6.3:
        width, reach = rng.uniform(0.12, 0.45), rng.randint(260, 720)
        ends = [(x0 + reach * math.cos(a), y0 + reach * math.sin(a)) for a in (angle, angle + width)]
        points = f"{x0},{y0} " + " ".join(f"{x:.0f},{y:.0f}" for x, y in ends)
        picture += f'<polygon points="{points}" fill="{rng.choice(palette[1:])}"/>'
        angle += width + rng.uniform(0.02, 0.3)
    return picture + _circle(x0, y0, rng.randint(24, 70), palette[0])


def _rings(rng: random.Random, palette: list[str]) -> str:
    """Classical: rings, as of a bell."""
    x, y = rng.randint(200, 440), rng.randint(170, 330)
    step, picture = rng.randint(26, 52), ""
    for ring in range(12, 0, -1):
        colour = palette[1 + (ring + len(palette)) % 3] if ring % rng.choice([2, 3]) else palette[4]
        picture += _circle(x, y, ring * step, colour, f'opacity="{0.55 + 0.03 * ring:.2f}"')
    return picture


def _grid(rng: random.Random, palette: list[str]) -> str:
    """Electronic: a grid of lamps, some of them lit."""
    cells = rng.randint(5, 9)
    side, picture = SIDE / cells, ""
    density, is_round = rng.uniform(0.3, 0.75), rng.random() < 0.5
    for row in range(cells):
        for column in range(cells):
            if rng.random() > density:
                continue
            colour, size = rng.choice(palette[1:]), side * rng.uniform(0.35, 0.9)
            x, y = (column + 0.5) * side, (row + 0.5) * side
            if is_round:
                picture += _circle(x, y, size / 2, colour)
            else:
                corner = f'x="{x - size / 2:.0f}" y="{y - size / 2:.0f}"'
                picture += f'<rect {corner} width="{size:.0f}" height="{size:.0f}" fill="{colour}"/>'
    return picture


def _waves(rng: random.Random, palette: list[str]) -> str:
    """Sea songs: waves, and a boat on one of them."""
    picture = f'<rect width="{SIDE}" height="{SIDE}" fill="{palette[3]}"/>'
    boat_at = rng.randint(1, 3)
    for row in range(6):
        y, phase, reach = 230 + row * 70, rng.randint(0, 120), rng.randint(16, 34)
        arcs = "".join(f"q 60 {-reach * 2} 120 0 " for _ in range(8))
        if row == boat_at:
            x = rng.randint(140, 440)
            picture += f'<path d="M{x} {y - 34} l120 0 l-26 46 l-68 0 z" fill="{palette[0]}"/>'
            mast = rng.randint(110, 190)
            picture += f'<path d="M{x + 58} {y - 40} v{-mast} l{rng.randint(50, 90)} {mast} z" fill="{palette[4]}"/>'
        colour = palette[1 + row % 2]
        picture += f'<path d="M{-phase} {y} {arcs} V{SIDE} H{-phase} z" fill="{colour}" opacity=".9"/>'
    return picture


def _beam(rng: random.Random, palette: list[str]) -> str:
    """Films: beams of light that cross, and a figure."""
    picture = ""
    for _ in range(rng.randint(2, 4)):
        x, spread, lean = rng.randint(40, 600), rng.randint(80, 220), rng.randint(-260, 260)
        points = f"{x},0 {x + lean - spread},{SIDE} {x + lean + spread},{SIDE}"
        picture += f'<polygon points="{points}" fill="{rng.choice(palette[2:])}" opacity=".55"/>'
    x, height = rng.randint(150, 490), rng.randint(150, 300)
    body = f"M{x} {430 - height} q-50 20 -56 {height} h112 q-6 {-height + 20} -56 {-height}"
    return picture + f'<path d="{body}" fill="{palette[0]}"/>' + _circle(x, 420 - height, 34, palette[0])


def _windows(rng: random.Random, palette: list[str]) -> str:
    """Films: a street of houses with lit windows."""
    picture, x = f'<rect width="{SIDE}" height="{SIDE}" fill="{palette[1]}"/>', 0
    picture += _circle(rng.randint(80, 560), rng.randint(60, 140), rng.randint(26, 60), palette[3])
    while x < SIDE:
        width, top = rng.randint(80, 170), rng.randint(120, 330)
        picture += f'<rect x="{x}" y="{top}" width="{width - 6}" height="{SIDE - top}" fill="{palette[0]}"/>'
        for y in range(top + 24, SIDE, 58):
            for left in range(x + 16, x + width - 34, 38):
                if rng.random() < 0.45:
                    colour = rng.choice([palette[4], palette[3]])
                    picture += f'<rect x="{left}" y="{y}" width="20" height="30" fill="{colour}"/>'
        x += width
    return picture


def _strip(rng: random.Random, palette: list[str]) -> str:
    """Films: frames of a strip, each with a ball that is a little further."""
    picture, rows = "", rng.randint(2, 3)
    height = 460 / rows
    for row in range(rows):
        for column in range(3):
            x, y, frame = 16 + column * 208, 16 + row * height, row * 3 + column
            colour = palette[1 + (frame + rows) % 3]
            picture += f'<rect x="{x}" y="{y:.0f}" width="192" height="{height - 16:.0f}" fill="{colour}"/>'
            drop = abs(math.sin(frame * rng.uniform(0.5, 0.9))) * (height - 80)
            picture += _circle(x + 40 + frame * 14, y + height - 46 - drop, rng.randint(18, 30), palette[4])
    return picture


MOTIFS: dict[str, Draw] = {
    "Jazz": _bars,
    "Folk": _hills,
    "Rock": _shards,
    "Classical": _rings,
    "Electronic": _grid,
    "Sea songs": _waves,
    "Silent": _strip,
    "Noir": _windows,
    "Drama": _beam,
    "Comedy": _strip,
    "Documentary": _hills,
    "Animation": _grid,
}
