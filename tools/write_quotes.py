"""Copy the files that the docs quote into their pages: `python tools/write_quotes.py`. A test compares them.

A quoting block is marked with the file and, if it quotes a part, with the texts between which that part stands:
```` ```python from ../examples/some.py after "# ---- one ----" before "# ---- two" ````. So a page can be read, and
pasted from, as it is in the repository; a directive of Sphinx would show the code only on the built page.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QUOTE = re.compile(r"^(?P<fence>```\w+ from (?P<what>[^\n]+)\n).*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Return the pages that quote files."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if QUOTE.search(page.read_text("utf-8"))]


def written(page: Path) -> str:
    """Return the text of the page with every quotation as the file has it now."""
    return QUOTE.sub(lambda quote: f"{quote['fence']}{_quoted(page, quote['what'])}\n```", page.read_text("utf-8"))


def _quoted(page: Path, what: str) -> str:
    """Return the whole file, or the part between two texts that stand in it. The second text is not included."""
    name, *options = shlex.split(what)
    text = (page.parent / name).read_text("utf-8")
    limits = dict(zip(options[::2], options[1::2], strict=True))
    if after := limits.pop("after", None):
        text = text[text.index(after) + len(after) :]
    if at := limits.pop("at", None):
        text = text[text.index(at) :]
    if before := limits.pop("before", None):
        text = text[: text.index(before)]
    if limits:
        raise ValueError(f"{page.name}: {', '.join(limits)} is none of after, at and before")
    return text.strip("\n")


def main() -> None:
    """Rewrite the pages."""
    for page in pages():
        page.write_text(written(page), "utf-8")


if __name__ == "__main__":
    main()
