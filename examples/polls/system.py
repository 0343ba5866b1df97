"""The declaration of polls, which Squinney's service reads."""

from __future__ import annotations

from polls.documents import COLLECTIONS
from polls.polls import Polls
from polls.queries import QUERIES
from polls.repair import find_problems, repair
from squinney.mongo.schema import Db
from squinney.system import System


def demo(db: Db) -> None:
    """Create one poll to look at on the first start."""
    Polls(db).open("Which animal has thirteen lines?", ["the ground squirrel", "the zebra"])


SYSTEM = System(
    package="polls",
    title="Polls",
    what="Questions with a few options, and one vote per person.",
    collections=COLLECTIONS,
    queries=QUERIES,
    build=lambda db, transactions: {"polls": Polls(db, transactions=transactions)},
    find_problems=find_problems,
    repair=repair,
    demo=demo,
    figures=lambda db: {"polls": db["polls"].estimated_document_count()},
)
