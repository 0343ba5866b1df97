"""The declaration of the advertising network, which the service reads."""

from __future__ import annotations

from squinney.ads import proof
from squinney.ads.demo import demo
from squinney.ads.documents import COLLECTIONS
from squinney.ads.jobs import JOBS
from squinney.ads.network import AdNetwork
from squinney.ads.queries import QUERIES
from squinney.ads.repair import find_problems, repair
from squinney.system import Proof, System, counts_of

SYSTEM = System(
    package="squinney.ads",
    title="Ads",
    what="Campaigns whose ads are chosen from memory, and whose budgets are never exceeded.",
    collections=COLLECTIONS,
    queries=QUERIES,
    build=lambda db, transactions: {"network": AdNetwork(db, transactions=transactions)},
    close=lambda services: services["network"].close(),
    jobs=JOBS,
    find_problems=find_problems,
    repair=repair,
    demo=demo,
    figures=counts_of({"campaigns": "ads.campaigns", "ads in zones": "ads.placements"}),
    proof=Proof.of(proof),
)
