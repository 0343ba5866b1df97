"""`SYSTEM`: how the service, the commands and the checks use the social network."""

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
    what="Members put each other into circles and write posts for everyone or for some of their circles.",
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
