"""Shows our docstrings, which are written as plain text for readers of the source, in the API reference."""

from __future__ import annotations

import re
from typing import Any

LABEL = re.compile(r"^(\s*)(Atomic|After a crash|Raises):\s*")
QUOTED = re.compile(r"(`[^`]+`)(\w?)")  # RST wants a mark between a quoted name and a letter: `Collection`s
LISTED = re.compile(r"^\s*- ")


def _end_quote(quote: re.Match[str]) -> str:
    return quote[1] + (f"\\ {quote[2]}" if quote[2] else "")


def to_rst(lines: list[str]) -> list[str]:
    """Turn labels into paragraphs, fences and indented examples into literal blocks, and separate lists from texts."""
    shown: list[str] = []
    is_fenced = is_indented = False
    for line in lines:
        before = shown[-1] if shown else ""
        if line.strip().startswith("```"):
            is_fenced = not is_fenced
            shown += ["::", ""] if is_fenced else [""]
        elif is_fenced:
            shown.append(f"    {line}")
        elif LABEL.match(line):
            shown += ["", LABEL.sub(r"\1**\2:** ", line)]
        else:
            begins_example = line.startswith("    ") and not before.strip() and not is_indented
            begins_list = LISTED.match(line) and before.strip() and not before.startswith(("-", " "))
            shown += ["::", ""] if begins_example else [""] if begins_list else []
            is_indented = line.startswith("    ") or (is_indented and not line.strip())
            shown.append(line if is_indented else QUOTED.sub(_end_quote, line))
    return shown


def process(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Replace the lines of a docstring, as Sphinx asks for it."""
    lines[:] = to_rst(lines)


def is_shown_elsewhere(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out an error of all systems where a system exports it too: it is on the page of errors."""
    of_all = getattr(thing, "__module__", "") == "squinney.errors"
    return True if of_all and app.env.current_document.autodoc_module != "squinney.errors" else None


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-skip-member", is_shown_elsewhere)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
