"""Links between the pages lead to pages and headings that exist; `make docs` would say so too, in minutes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SEPARATOR = re.compile(r"[^\w\- ]")


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    return {SEPARATOR.sub("", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]
    missing = []
    for page in (path for path in pages if "_build" not in path.parts):
        for path, anchor in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                missing.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
            elif page.parent == DOCS and target.suffix == ".md" and DOCS not in target.parents:
                missing.append(f"{page.relative_to(ROOT)}: {path} is not in docs, where Sphinx would find it")
    assert missing == []
