"""Explore concurrent operations of each system: every pair, some triples, and random plans, with mixed modes."""

from __future__ import annotations

import random
import zlib
from itertools import product

import pytest

from squinney.testing import Explorer, counts
from squinney.transactions import Mode
from tests.explore import plans
from tests.explore.scene import BOTH, Scene
from tests.explore.scenes import SCENES
from tests.sizes import IN_FULL, day, heavy

A_PAIR = 110 if IN_FULL else 3
A_TRIPLE = 110 if IN_FULL else 4
A_BUG = 110 if IN_FULL else 40
A_PLAN = 40 if IN_FULL else 5
TRIPLES_A_SCENE = 20 if IN_FULL else 2
PLANS = 400 if IN_FULL else 20

Meeting = tuple[Scene, tuple[str, ...], tuple[Mode, ...]]


def _pairs(scene: Scene) -> list[Meeting]:
    """Return every pair in all modes for `make prove`; otherwise half of the pairs, each in one combination of modes.

    The other half has its turn the next day.
    """
    every = [(scene, names, scene.modes_of(names)) for names in scene.pairs()]
    if IN_FULL:
        return [(scene, names, modes) for scene, names, all_modes in every for modes in all_modes]
    each = [(scene, names, modes[number % len(modes)]) for number, (scene, names, modes) in enumerate(every)]
    return [meeting for meeting in each if _seed(meeting) % 2 == day() % 2]


def _triples(scene: Scene) -> list[Meeting]:
    if scene.between:
        return []
    rng = random.Random(scene.name)
    chosen = [tuple(rng.choices(list(scene.operations), k=3)) for _ in range(TRIPLES_A_SCENE)]
    return [(scene, names, rng.choice(scene.modes_of(names))) for names in chosen]


def _name(meeting: Meeting) -> str:
    scene, names, modes = meeting
    return f"{scene.name}: {' | '.join(f'{name} {mode}' for name, mode in zip(names, modes, strict=True))}"


def _seed(meeting: Meeting) -> int:
    """Return a different seed for each meeting: few schedules of each are played, and they should not all be alike."""
    return zlib.crc32(_name(meeting).encode())


# Here the explorer found a bug: more schedules are played.
FOUND: list[tuple[str, tuple[str, ...], tuple[Mode, ...]]] = [
    ("nodes", ("move", "remove"), ("native", "two-phase")),  # the moved node was reported as unknown
    ("ledger", ("a to c", "close c"), ("two-phase", "native")),  # reported as not empty, for a transfer that failed
    ("social", ("post by key", "leave"), ("native", "native")),  # refused, although the post was written
    ("links", ("accept", "accept other"), ("two-phase", "native")),  # reported as used, for a link that was not
    ("payments, late", ("settle", "forget carts"), ("two-phase", "two-phase")),  # a refund lost its cart
    ("orders, lost", ("from cart", "settle"), ("native", "native")),  # the order was created after its refund
    ("orders, lost", ("from cart", "refund, delete"), ("native", "native")),  # the same, after it was deleted too
    ("flags", ("flag", "remove page"), ("native", "native")),  # a flag stayed after the sweep of its page
    ("game, around", ("load", "create Eve"), ("native", "native")),  # the load stopped
    # the cancelled order was reported as unknown
    ("orders", ("increase by key", "delete", "cancel unpaid"), ("two-phase", "two-phase", "native")),
]

PAIRS = [pair for scene in SCENES for pair in _pairs(scene)]
TRIPLES = [triple for scene in SCENES for triple in _triples(scene)]


@heavy
@pytest.mark.parametrize("meeting", PAIRS, ids=_name)
def test_two_concurrent_operations_end_as_in_a_serial_order(
    meeting: Meeting, explorer: Explorer, pytestconfig: pytest.Config
) -> None:
    scene, names, modes = meeting
    explored = scene.explore(explorer, names, modes, schedules=A_PAIR, seed=_seed(meeting))
    counts.count(pytestconfig, "schedules", explored.schedules)


@heavy
@pytest.mark.parametrize("meeting", TRIPLES, ids=_name)
def test_three_concurrent_operations_end_as_in_a_serial_order(
    meeting: Meeting, explorer: Explorer, pytestconfig: pytest.Config
) -> None:
    scene, names, modes = meeting
    explored = scene.explore(explorer, names, modes, schedules=A_TRIPLE, seed=_seed(meeting))
    counts.count(pytestconfig, "schedules", explored.schedules)


@pytest.mark.parametrize(
    ("name", "names", "modes"), FOUND, ids=[f"{name}: {' | '.join(names)}" for name, names, _ in FOUND]
)
def test_a_bug_that_was_found_does_not_return(
    name: str, names: tuple[str, ...], modes: tuple[Mode, ...], explorer: Explorer, pytestconfig: pytest.Config
) -> None:
    scene = next(scene for scene in SCENES if scene.name == name)
    explored = scene.explore(explorer, names, modes, schedules=A_BUG)
    counts.count(pytestconfig, "schedules", explored.schedules)


@heavy
@pytest.mark.parametrize("seed", range(PLANS))
def test_concurrent_random_plans_end_as_in_a_serial_order(
    seed: int, explorer: Explorer, pytestconfig: pytest.Config
) -> None:
    count = 3 if seed % 5 == 0 else 2
    every_mode: list[tuple[Mode, ...]] = list(product(BOTH, repeat=count))
    explored = explorer.explore(
        plans.operations(seed, count, every_mode[seed % len(every_mode)]),
        prepare=plans.prepare,
        collections=plans.PLAN_COLLECTIONS,
        schedules=A_PLAN,
    )
    counts.count(pytestconfig, "schedules", explored.schedules)
