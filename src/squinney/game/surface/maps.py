"""Draw the map of the rooms that a character has visited, as SVG."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from squinney.game import Location

STEP = {"n": (0, -1), "s": (0, 1), "e": (1, 0), "w": (-1, 0), "u": (1, -1), "d": (1, 1)}
OTHER_STEP = (1, 0)  # for exits with other names
CELL_WIDTH, CELL_HEIGHT = 104, 70
BOX_WIDTH, BOX_HEIGHT = 88, 42
FARTHEST = 6
MAX_AWAY = 2, 3  # cells: more columns would not be readable beside the room
MAX_LINE_LENGTH = 12
Cell = tuple[int, int]


def cells_of(rooms: Mapping[str, Location], here: str) -> dict[str, Cell]:
    """Return a cell of the map for each room near `here`, following the directions of the exits.

    If the cell in that direction is taken, the room gets the next free one.
    """
    if here not in rooms:
        return {}
    cells: dict[str, Cell] = {here: (0, 0)}
    taken = {(0, 0)}
    waiting = deque([(here, 0)])
    while waiting:
        name, distance = waiting.popleft()
        for direction, target in sorted(rooms[name]["exits"].items()):
            if target in rooms and target not in cells and distance < FARTHEST:
                cell = _free_cell(taken, cells[name], STEP.get(direction, OTHER_STEP))
                cells[target] = cell
                taken.add(cell)
                waiting.append((target, distance + 1))
    return cells


def _free_cell(taken: set[Cell], start: Cell, step: Cell) -> Cell:
    cell = (start[0] + step[0], start[1] + step[1])
    while cell in taken:
        cell = (cell[0] + (step[0] or 1), cell[1] + step[1])
    return cell


def draw(seen: Sequence[Location], here: str) -> Markup:
    """Draw the map: the room `here` is marked, and exits to rooms that are not on the map are dashed."""
    rooms = {room["_id"]: room for room in seen}
    cells = {name: (x, y) for name, (x, y) in cells_of(rooms, here).items() if _is_near(x, y)}
    if not cells:
        return Markup("")
    left, top = min(x for x, _ in cells.values()), min(y for _, y in cells.values())
    centres = {name: ((x - left + 0.5) * CELL_WIDTH, (y - top + 0.5) * CELL_HEIGHT) for name, (x, y) in cells.items()}
    width = (max(x for x, _ in cells.values()) - left + 1) * CELL_WIDTH
    height = (max(y for _, y in cells.values()) - top + 1) * CELL_HEIGHT
    parts = [*_ways(rooms, centres), *(_box(rooms[name], *centres[name], name == here) for name in cells)]
    label = f"Map of {len(cells)} rooms; you are in {rooms[here]['name'] or here}"
    frame = Markup('<svg class="game-map" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">')
    return frame.format(width, height, label) + Markup("").join(parts) + Markup("</svg>")


def _ways(rooms: Mapping[str, Location], centres: Mapping[str, tuple[float, float]]) -> list[Markup]:
    lines: dict[Any, Markup] = {}
    for name, (x, y) in centres.items():
        for direction, target in rooms[name]["exits"].items():
            if target in centres:
                key, (x2, y2), kind = frozenset((name, target)), centres[target], "way"
            else:
                dx, dy = STEP.get(direction, OTHER_STEP)
                key, (x2, y2), kind = frozenset((name, direction, target)), (x + dx * 51, y + dy * 34), "way unknown"
            line = Markup('<line class="{}" x1="{:g}" y1="{:g}" x2="{:g}" y2="{:g}"/>').format(kind, x, y, x2, y2)
            lines.setdefault(key, line)
    return list(lines.values())


def _box(room: Location, x: float, y: float, here: bool) -> Markup:
    name = room["name"] or room["_id"]
    box = Markup('<rect class="{}" x="{:g}" y="{:g}" width="{}" height="{}" rx="7"/>').format(
        "room here" if here else "room", x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2, BOX_WIDTH, BOX_HEIGHT
    )
    lines = _lines_of(name)
    first = y + 4 - (len(lines) - 1) * 7
    text = Markup("").join(
        Markup('<text class="{}" x="{:g}" y="{:g}">{}</text>').format("here" if here else "", x, first + row * 14, line)
        for row, line in enumerate(lines)
    )
    return Markup("<g><title>{}</title>").format(name) + box + text + Markup("</g>")


def _is_near(x: int, y: int) -> bool:
    return abs(x) <= MAX_AWAY[0] and abs(y) <= MAX_AWAY[1]


def _lines_of(name: str) -> list[str]:
    """Split a name into two lines; what does not fit is cut, and the tooltip has all of it."""
    words = name.split()
    first = words.pop(0) if words else ""
    while words and len(first) + 1 + len(words[0]) <= MAX_LINE_LENGTH:
        first = f"{first} {words.pop(0)}"
    return [_cut(line) for line in (first, " ".join(words)) if line]


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE_LENGTH else f"{line[: MAX_LINE_LENGTH - 1].rstrip()}…"
