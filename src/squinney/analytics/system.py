"""The declaration of analytics as a system."""

from __future__ import annotations

from squinney import analytics
from squinney.analytics import proof
from squinney.analytics.migration import migrations
from squinney.system import Proof, System

SYSTEM = System(
    package="squinney.analytics",
    title="Analytics",
    what="Logs imported exactly once, hits per minute, and roll-ups from hours to years.",
    collections=analytics.COLLECTIONS,
    queries=analytics.QUERIES,
    build=analytics.build,
    jobs=analytics.JOBS,
    find_problems=analytics.find_problems,
    repair=analytics.repair,
    demo=analytics.demo,
    figures=analytics.figures,
    proof=Proof.of(proof),
    migrations=migrations,
)
