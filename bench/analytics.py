"""Analytics beside the raw driver and its peers, in parts: `SQUINNEY_BENCH_PARTS=imports,hits` measures only those.

The page keeps the other parts as they were last measured; each says when that was.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from bench import report
from bench._analytics_hits import hits, layouts, preallocation, series
from bench._analytics_imports import imports, memory
from bench._analytics_rollups import rollups
from squinney.mongo.connect import Connection

PARTS: dict[str, Callable[[Connection, int, bool], list[str]]] = {
    "imports": imports,
    "memory": memory,
    "hits": hits,
    "series": series,
    "layouts": layouts,
    "preallocation": preallocation,
    "rollups": rollups,
}
ONCE = ("memory", "rollups")
PAGE = report.PAGES / "analytics.md"
TITLE = "Analytics beside the raw driver and its peers"
INTRODUCTION = (
    "Contenders take turns; rates are medians, ratios are medians of the rounds' ratios. "
    "`python -m bench analytics`, or some parts of it: `SQUINNEY_BENCH_PARTS=imports,hits python -m bench analytics`."
)


def run(connection: Connection, *, rounds: int = 3, seconds: float = 2.0) -> None:
    """Measure everything, or the parts that are asked for, and write the page. A quick look is printed only."""
    quick = seconds < 1
    wanted = [part for part in os.environ.get("SQUINNEY_BENCH_PARTS", ",".join(PARTS)).split(",") if part]
    if unknown := set(wanted) - set(PARTS):
        raise SystemExit(f"SQUINNEY_BENCH_PARTS: {', '.join(sorted(unknown))} is none of {', '.join(PARTS)}")
    for name in wanted:
        text = _measured(connection, name, rounds, quick)
        print(text, flush=True)
        if not quick:
            _put(name, text)
    connection.client.drop_database("bench_analytics")


def _measured(connection: Connection, name: str, rounds: int, quick: bool) -> str:
    version = connection.client.admin.command("buildInfo")["version"]
    said = f"{'One round' if name in ONCE else f'{rounds} rounds'}. {report.machine(version)}"
    if extra := os.environ.get("SQUINNEY_BENCH_NOTE"):
        said += f" {extra}"
    return "\n\n".join([*PARTS[name](connection, rounds, quick), said])


def _put(name: str, text: str) -> None:
    """Replace one part of the page."""
    known = {part: _part(part) for part in PARTS} | {name: text}
    parts = [f"<!-- {part} -->\n{found}\n<!-- /{part} -->" for part, found in known.items() if found]
    report.write_page("analytics", TITLE, [INTRODUCTION, *parts])


def _part(name: str) -> str:
    page = PAGE.read_text() if PAGE.exists() else ""
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", page, re.S)
    return found[1] if found else ""
