"""What can be proven: the two transfers side by side, and each system that has a proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from squinney.errors import NotFound
from squinney.mongo.schema import Collection
from squinney.service.proving import lanes
from squinney.service.proving.transfers import guarded_transfer, plain_transfer
from squinney.system import Proof
from squinney.transactions import COLLECTIONS, end_abandoned

TRANSFER = "transfer"


@dataclass(frozen=True)
class Stage:
    """A part of a proof: its share of the time, and what to watch. `kills` compares their rate with the usual one."""

    name: str
    share: float
    watch: str
    kills: float = 0
    races: bool = False


@dataclass(frozen=True)
class Lane:
    """Workers that do one thing in a database of their own. `total` is the sum of all balances, if there are any."""

    name: str
    title: str
    proof: Proof
    collections: Callable[[], Sequence[Collection]]
    total: int = 0


@dataclass(frozen=True)
class Subject:
    """One or more lanes that run side by side, through the same stages. `packages` are those of further systems."""

    name: str
    title: str
    lanes: Sequence[Lane]
    stages: Sequence[Stage]
    packages: Sequence[str] = ()


def _money_lane(name: str, title: str, transfer: lanes.Transfer) -> Lane:
    proof = Proof(
        prepare=lanes.prepare,
        work=partial(lanes.work, transfer),
        settle=lambda db: Counter({"open transactions": end_abandoned(db)}),
        progress=lambda db: 0,
        check=lanes.check,
    )
    return Lane(name, title, proof, lambda: COLLECTIONS, lanes.TOTAL)


TRANSFERS = Subject(
    TRANSFER,
    "A transfer, by hand and as guarded steps",
    [
        _money_lane("by-hand", "By hand", plain_transfer),
        _money_lane("guarded-steps", "Guarded steps", guarded_transfer),
    ],
    [
        Stage("calm", 0.2, "Nobody is killed and nobody shares an account: both lanes keep every cent."),
        Stage("kills", 0.4, "At each cross a worker was killed while it wrote: look at the sum after it.", kills=1),
        Stage(
            "kills and races",
            0.4,
            "Now both workers also empty the same account at the same time: a balance can fall below zero.",
            kills=1,
            races=True,
        ),
    ],
)
SYSTEM_STAGES = [
    Stage("calm", 0.2, "Nobody is killed: each bar is one operation, a grey one was refused."),
    Stage("kills", 0.4, "At each cross a worker was killed while it wrote: the next runs find nothing half done.", 1),
    Stage("kills and races", 0.4, "Kills come twice as often, while all workers use the same data.", 2, True),
]


def system_subject(name: str, packages: Sequence[str] = ()) -> Subject:
    """Return the proof of a system; `packages` are those of further systems.

    Raises: `NotFound`.
    """
    from squinney import assembly  # slow to import, and the workers of the transfers do not need it

    systems = assembly.chosen_systems(packages)
    system = assembly.system_named(name, systems)
    if system is None or system.proof is None:
        known = ", ".join(other.name for other in systems if other.proof)
        raise NotFound(f"{name} has no proof; systems with one: {known}")
    lane = Lane(name, system.title, system.proof, lambda: [*assembly.CORE_COLLECTIONS, *system.collections])
    return Subject(name, system.title, [lane], SYSTEM_STAGES, packages)


def subject_named(name: str, packages: Sequence[str] = ()) -> Subject:
    """Return the subject of that name.

    Raises: `NotFound`.
    """
    return TRANSFERS if name == TRANSFER else system_subject(name, packages)


def lane_named(name: str, packages: Sequence[str] = ()) -> Lane:
    """Return the lane of that name, for a worker.

    Raises: `NotFound`.
    """
    for lane in TRANSFERS.lanes:
        if lane.name == name:
            return lane
    return system_subject(name, packages).lanes[0]
