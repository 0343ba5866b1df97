"""The declaration of the world as a system."""

from __future__ import annotations

from squinney.game import proof
from squinney.game.demo import demo
from squinney.game.documents import CHARACTERS, COLLECTIONS, ITEMS, LOCATIONS
from squinney.game.jobs import JOBS
from squinney.game.migration import migrations
from squinney.game.queries import QUERIES
from squinney.game.repair import find_problems, repair
from squinney.game.world import World
from squinney.system import Proof, System, counts_of

ACTS_PER_MINUTE = 300  # per player; `take all` is up to fifty acts

SYSTEM = System(
    package="squinney.game",
    title="World",
    what="Rooms, things and characters, in which each thing is in one place and no gold is lost.",
    collections=COLLECTIONS,
    queries=QUERIES,
    build=lambda db, transactions: {"world": World(db, transactions=transactions, acts_per_minute=ACTS_PER_MINUTE)},
    jobs=JOBS,
    find_problems=find_problems,
    repair=repair,
    demo=demo,
    figures=counts_of({"rooms": LOCATIONS, "characters": CHARACTERS, "things": ITEMS}),
    proof=Proof.of(proof),
    migrations=migrations,
)
