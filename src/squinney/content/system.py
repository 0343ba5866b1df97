"""Content, as everything else sees it."""

from __future__ import annotations

from squinney import content
from squinney.content import proof
from squinney.system import Proof, System

SYSTEM = System(
    package="squinney.content",
    title="Site",
    what="Pages, a blog, photos and comments, with drafts, history and merges.",
    collections=content.COLLECTIONS,
    queries=content.QUERIES,
    build=content.build,
    jobs=content.JOBS,
    find_problems=content.find_problems,
    repair=content.repair,
    demo=content.demo,
    figures=content.figures,
    proof=Proof.of(proof),
    path="site",
)
