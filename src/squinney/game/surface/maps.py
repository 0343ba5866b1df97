"""The map of the rooms that a character has seen, as SVG."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from squinney.game import Location

STEP = {"n": (0, -1), "s": (0, 1), "e": (1, 0), "w": (-1, 0), "u": (1, -1), "d": (1, 1)}
OTHER = (1, 0)
WIDE, HIGH = 138, 68  # from room to room
BOX_WIDE, BOX_HIGH = 108, 36
FARTHEST = 6
LONGEST_LABEL = 15
Cell = tuple[int, int]


def places(rooms: Mapping[str, Location], here: str) -> dict[str, Cell]:
    """A cell for each room near the one that one is in, by the directions of the exits; where the world does not fit
    on a plane, a room goes to the next free cell."""
    if here not in rooms:
        return {}
    found: dict[str, Cell] = {here: (0, 0)}
    taken = {(0, 0)}
    waiting = deque([(here, 0)])
    while waiting:
        name, far = waiting.popleft()
        for direction, target in sorted(rooms[name]["exits"].items()):
            if target in rooms and target not in found and far < FARTHEST:
                cell = _free(taken, found[name], STEP.get(direction, OTHER))
                found[target] = cell
                taken.add(cell)
                waiting.append((target, far + 1))
    return found


def _free(taken: set[Cell], start: Cell, step: Cell) -> Cell:
    cell = (start[0] + step[0], start[1] + step[1])
    while cell in taken:
        cell = (cell[0] + (step[0] or 1), cell[1] + step[1])
    return cell


def draw(seen: Sequence[Location], here: str) -> Markup:
    """The map; the room that one is in is marked, and exits that nobody has taken yet are dashed."""
    rooms = {room["_id"]: room for room in seen}
    cells = places(rooms, here)
    if not cells:
        return Markup("")
    left, top = min(x for x, _ in cells.values()), min(y for _, y in cells.values())
    centres = {name: ((x - left + 0.5) * WIDE, (y - top + 0.5) * HIGH) for name, (x, y) in cells.items()}
    wide = (max(x for x, _ in cells.values()) - left + 1) * WIDE
    high = (max(y for _, y in cells.values()) - top + 1) * HIGH
    parts = [*_ways(rooms, centres), *(_box(rooms[name], *centres[name], name == here) for name in cells)]
    label = f"Map of {len(cells)} rooms; you are in {rooms[here]['name'] or here}"
    frame = Markup('<svg class="game-map" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">')
    return frame.format(wide, high, label) + Markup("").join(parts) + Markup("</svg>")


def _ways(rooms: Mapping[str, Location], centres: Mapping[str, tuple[float, float]]) -> list[Markup]:
    lines: dict[Any, Markup] = {}
    for name, (x, y) in centres.items():
        for direction, target in rooms[name]["exits"].items():
            if target in centres:
                key, (x2, y2), kind = frozenset((name, target)), centres[target], "way"
            else:
                dx, dy = STEP.get(direction, OTHER)
                key, (x2, y2), kind = frozenset((name, direction, target)), (x + dx * 68, y + dy * 32), "way unknown"
            line = Markup('<line class="{}" x1="{:g}" y1="{:g}" x2="{:g}" y2="{:g}"/>').format(kind, x, y, x2, y2)
            lines.setdefault(key, line)
    return list(lines.values())


def _box(room: Location, x: float, y: float, here: bool) -> Markup:
    name = room["name"] or room["_id"]
    label = name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1].rstrip()}…"
    box = Markup('<rect class="{}" x="{:g}" y="{:g}" width="{}" height="{}" rx="7"/>').format(
        "room here" if here else "room", x - BOX_WIDE / 2, y - BOX_HIGH / 2, BOX_WIDE, BOX_HIGH
    )
    text = Markup('<text class="{}" x="{:g}" y="{:g}">{}</text>').format("here" if here else "", x, y + 4, label)
    return Markup("<g><title>{}</title>").format(name) + box + text + Markup("</g>")
