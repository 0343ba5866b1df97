"""Content, as everything else sees it."""

from __future__ import annotations

from squinney import content
from squinney.content import proof
from squinney.content.files.documents import FILES
from squinney.content.nodes.documents import NODES, REVISIONS
from squinney.system import Proof, System, counts_of

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
    figures=counts_of({"pages": NODES, "versions": REVISIONS, "files": FILES}),
    proof=Proof.of(proof),
    path="site",
)
