"""Analytics compared with the plain driver and with similar tools, in parts.

`SQUINNEY_BENCH_PARTS=imports,hits` measures only these parts; the page keeps the last results of the others, each with
its date.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from bench import report
from bench._analytics_goaccess import goaccess
from bench._analytics_growth import growth
from bench._analytics_hits import hits, layouts, preallocation, series
from bench._analytics_imports import imports, memory, reads
from bench._analytics_rollups import rollups
from squinney.mongo.connect import Connection

PARTS: dict[str, Callable[[Connection, int, bool], list[str]]] = {
    "imports": imports,
    "goaccess": goaccess,
    "growth": growth,
    "memory": memory,
    "reads": reads,
    "hits": hits,
    "series": series,
    "layouts": layouts,
    "preallocation": preallocation,
    "rollups": rollups,
}
ONCE = ("goaccess", "growth", "memory", "reads", "rollups")
PAGE = report.PAGES / "analytics.md"
TITLE = "Analytics compared with the plain driver and similar tools"
INTRODUCTION = (
    "The contenders take turns. Rates are medians over the rounds; ratios are medians of the ratios of each round. "
    "`python -m bench analytics` measures all parts, "
    "`SQUINNEY_BENCH_PARTS=imports,hits python -m bench analytics` only some."
)


def run(connection: Connection, *, rounds: int = 3, seconds: float = 2.0) -> None:
    """Measure all parts, or the requested ones, and write the page; a quick run only prints the results."""
    quick = seconds < 1
    wanted = [part for part in os.environ.get("SQUINNEY_BENCH_PARTS", ",".join(PARTS)).split(",") if part]
    if unknown := set(wanted) - set(PARTS):
        raise SystemExit(f"SQUINNEY_BENCH_PARTS: {', '.join(sorted(unknown))} is not one of {', '.join(PARTS)}")
    for name in wanted:
        text = _measured(connection, name, rounds, quick)
        print(text, flush=True)
        if not quick:
            _put(name, text)
    connection.client.drop_database("bench_analytics")


def _measured(connection: Connection, name: str, rounds: int, quick: bool) -> str:
    version = connection.client.admin.command("buildInfo")["version"]
    conditions = f"{'One round' if name in ONCE else f'{rounds} rounds'}. {report.machine(version)}"
    if extra := os.environ.get("SQUINNEY_BENCH_NOTE"):
        conditions += f" {extra}"
    return "\n\n".join([*PARTS[name](connection, rounds, quick), conditions])


def _put(name: str, text: str) -> None:
    """Replace one part of the page."""
    known = {part: _part(part) for part in PARTS} | {name: text}
    parts = [f"<!-- {part} -->\n{text}\n<!-- /{part} -->" for part, text in known.items() if text]
    report.write_page("analytics", TITLE, [INTRODUCTION, *parts])


def _part(name: str) -> str:
    page = PAGE.read_text() if PAGE.exists() else ""
    section = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", page, re.S)
    return section[1] if section else ""
