"""Write results to a page of the documentation (machine, versions, tables, plots), and copy figures to the README."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pymongo

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "benchmarks"


def machine(server_version: str) -> str:
    """Describe the machine, the versions and the date of a measurement."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return (
        f"{os.cpu_count()} cores, {memory} GiB, {platform.system()}; Python {platform.python_version()}, "
        f"PyMongo {pymongo.version}, MongoDB {server_version}; {datetime.now(UTC):%Y-%m-%d}."
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def write_page(name: str, title: str, parts: Sequence[str]) -> None:
    """Write `docs/benchmarks/<name>.md`."""
    PAGES.mkdir(parents=True, exist_ok=True)
    (PAGES / f"{name}.md").write_text("\n\n".join([f"# {title}", *parts]) + "\n")


def bars(name: str, title: str, groups: Sequence[str], series: dict[str, Sequence[float]], unit: str) -> str:
    """Draw grouped bars to `docs/benchmarks/<name>.svg`, and return the Markdown that shows them."""
    import matplotlib  # here, because it takes a second that tests of the benchmarks need not wait

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3.6))
    width = 0.8 / len(series)
    for position, (label, values) in enumerate(series.items()):
        axes.bar([group + position * width for group in range(len(groups))], values, width, label=label)
    axes.set_xticks([group + 0.4 - width / 2 for group in range(len(groups))], groups)
    axes.set_ylabel(unit)
    axes.set_title(title)
    axes.legend(frameon=False)
    figure.tight_layout()
    PAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PAGES / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)
    return f"![{title}]({name}.svg)"


def copy_to_readme(name: str, text: str) -> None:
    """Replace the text between the README's markers for this benchmark."""
    readme = ROOT / "README.md"
    pattern = rf"(<!-- bench:{name} -->\n).*?(<!-- /bench:{name} -->)"
    readme.write_text(re.sub(pattern, lambda marked: f"{marked[1]}{text}\n{marked[2]}", readme.read_text(), flags=re.S))
