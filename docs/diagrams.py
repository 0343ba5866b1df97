"""Diagrams drawn by the docs build: the layers from the import rules, and the path of a request through the files.

A `way` has one box per line, `title | file | what happens there`; the build fails if a file does not exist.
"""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT, GAP = 820, 58, 18
STYLE = 'fill="none" stroke="currentColor"'


def drawing(label: str, boxes: list[tuple[str, str]], *, arrows: bool) -> str:
    """Draw the boxes below each other, each with a title and a smaller line."""
    step = HEIGHT + (GAP if arrows else 6)
    parts = []
    for number, (title, line) in enumerate(boxes):
        top = number * step + 2
        parts.append(f'<rect x="2" y="{top}" width="{WIDTH - 4}" height="{HEIGHT}" rx="8" {STYLE}/>')
        parts.append(f'<text x="18" y="{top + 24}" font-weight="bold">{escape(title)}</text>')
        parts.append(f'<text x="18" y="{top + 45}" font-size="13">{escape(line)}</text>')
        if arrows and number:
            middle = WIDTH // 2
            tip = f"M{middle - 5} {top - 7} L{middle} {top - 1} L{middle + 5} {top - 7}"
            parts.append(f'<path d="M{middle} {top - GAP} V{top - 1} {tip}" {STYLE}/>')
    size = f'viewBox="0 0 {WIDTH} {len(boxes) * step}" width="100%"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(label)}" fill="currentColor">'
    )
    return head + "".join(parts) + "</svg>"


def layers() -> list[tuple[str, str]]:
    """Return the layers of the import rules in `pyproject.toml`, with the systems added."""
    from squinney.assembly import SYSTEMS

    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = []
    for layer in rules[0]["layers"]:
        names = [name.removeprefix("squinney.") for name in layer.split(" | ")]
        if names == ["http"]:
            systems = ", ".join(sorted(system.name for system in SYSTEMS))
            rows.append((systems, "the systems; they never import each other, and only their surface/ uses http"))
        rows.append((", ".join(names), purpose(names[0])))
    return rows


def purpose(name: str) -> str:
    """Return the first line of the module's docstring."""
    path = ROOT / "src" / "squinney" / name
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return source.read_text().split('"""')[1].strip().splitlines()[0]


class House(SphinxDirective):
    """The directive `house`: a diagram of the layers."""

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", drawing("The layers, from the top down", layers(), arrows=False), format="html")]


class Way(SphinxDirective):
    """The directive `way`: a diagram of the files that a request passes through; its argument is the title."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        boxes = []
        for line in self.content:
            title, file, what = (part.strip() for part in line.split("|"))
            if not (ROOT / "src" / "squinney" / file).exists():
                raise self.error(f"src/squinney/{file} does not exist")
            boxes.append((f"{file}: {title}", what))
        return [nodes.raw("", drawing(self.arguments[0], boxes, arrows=True), format="html")]


def setup(app: Any) -> dict[str, bool]:
    """Register the directives; called by Sphinx."""
    app.add_directive("house", House)
    app.add_directive("way", Way)
    return {"parallel_read_safe": True}
