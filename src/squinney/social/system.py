"""The social network, as everything else sees it."""

from __future__ import annotations

from squinney.social import problem_queries, proof
from squinney.social.demo import demo
from squinney.social.documents import COLLECTIONS
from squinney.social.jobs import JOBS
from squinney.social.network import Network
from squinney.social.queries import QUERIES
from squinney.social.repair import find_problems, repair
from squinney.system import Proof, System, counts_of

SYSTEM = System(
    package="squinney.social",
    title="Social",
    what="People who put each other into circles, and see what is written for them the moment they may.",
    collections=COLLECTIONS,
    queries=[*QUERIES, *problem_queries.QUERIES],
    build=lambda db, transactions: {"network": Network(db)},
    jobs=JOBS,
    find_problems=find_problems,
    repair=repair,
    demo=demo,
    figures=counts_of({"members": "social.users", "posts": "social.posts", "deliveries": "social.news"}),
    proof=Proof.of(proof),
)
