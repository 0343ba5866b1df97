"""The declaration of the content system: collections, services, jobs, checks and demo."""

from __future__ import annotations

from typing import Any

from squinney import content
from squinney.content import proof
from squinney.content.files.documents import FILES
from squinney.content.nodes.documents import NODES, REVISIONS
from squinney.mongo.schema import Db
from squinney.system import Proof, System, counts_of
from squinney.transactions import Transactions


def _build(db: Db, transactions: Transactions) -> dict[str, Any]:
    nodes = content.Nodes(db, transactions=transactions)
    comments = content.Comments(db, transactions=transactions, only_nodes=True)
    return {
        "nodes": nodes,
        "photos": content.Photos(db, nodes=nodes, transactions=transactions),
        "comments": comments,
        "moderation": content.Moderation(db, comments, nodes=nodes),
        "people": content.People(db, content.Comments(db, transactions=transactions)),
    }


SYSTEM = System(
    package="squinney.content",
    title="Site",
    what="Pages, a blog, photos and comments, with drafts, history and merges.",
    collections=content.COLLECTIONS,
    queries=content.QUERIES,
    build=_build,
    jobs=content.JOBS,
    find_problems=content.find_problems,
    repair=content.repair,
    demo=content.demo,
    figures=counts_of({"pages": NODES, "versions": REVISIONS, "files": FILES}),
    proof=Proof.of(proof),
    path="site",
)
