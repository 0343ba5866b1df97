"""Explore concurrent operations of each system: every pair, some triples, and random plans."""

from __future__ import annotations

import random
import zlib

import pytest

from squinney.testing import Explorer
from tests.explore import plans
from tests.explore.scene import Scene
from tests.explore.scenes import SCENES
from tests.sizes import IN_FULL, heavy, todays

A_PAIR = 110 if IN_FULL else 3
A_TRIPLE = 110 if IN_FULL else 4
A_BUG = 110 if IN_FULL else 20
A_PLAN = 40 if IN_FULL else 5
TRIPLES_A_SCENE = 20
DAYS = 6  # after so many days, every pair and triple has been explored
PLANS = 400 if IN_FULL else 10

Meeting = tuple[Scene, tuple[str, ...]]


def _triples(scene: Scene) -> list[Meeting]:
    if scene.between:
        return []
    rng = random.Random(scene.name)
    chosen = [tuple(rng.choices(list(scene.operations), k=3)) for _ in range(TRIPLES_A_SCENE)]
    return [(scene, names) for names in chosen]


def _name(meeting: Meeting) -> str:
    scene, names = meeting
    return f"{scene.name}: {' | '.join(names)}"


def _seed(meeting: Meeting) -> int:
    """Return a different seed for each meeting: few schedules of each are played, and they should not all be alike."""
    return zlib.crc32(_name(meeting).encode())


# Here the explorer found a bug: more schedules are played.
FOUND: list[tuple[str, tuple[str, ...]]] = [
    ("nodes", ("move", "remove")),  # the moved node was reported as unknown
    ("ledger", ("a to c", "close c")),  # reported as not empty, for a transfer that failed
    ("social", ("post by key", "leave")),  # refused, although the post was written
    ("links", ("accept", "accept other")),  # reported as used, for a link that was not
    ("payments, late", ("settle", "forget carts")),  # a refund lost its cart
    ("orders, lost", ("from cart", "settle")),  # the order was created after its refund
    ("orders, lost", ("from cart", "refund, delete")),  # the same, after it was deleted too
    ("flags", ("flag", "remove page")),  # a flag stayed after its page was deleted
    ("game, around", ("load", "create Eve")),  # the load stopped
    # the cancelled order was reported as unknown
    ("orders", ("increase by key", "delete", "cancel unpaid")),
]

PAIRS = todays([(scene, names) for scene in SCENES for names in scene.pairs()], of=DAYS)
TRIPLES = todays([triple for scene in SCENES for triple in _triples(scene)], of=10 * DAYS)


@heavy
@pytest.mark.parametrize("meeting", PAIRS, ids=_name)
def test_two_concurrent_operations_end_as_in_a_serial_order(meeting: Meeting, explore: Explorer) -> None:
    scene, names = meeting
    scene.play(explore, names, schedules=A_PAIR, seed=_seed(meeting))


@heavy
@pytest.mark.parametrize("meeting", TRIPLES, ids=_name)
def test_three_concurrent_operations_end_as_in_a_serial_order(meeting: Meeting, explore: Explorer) -> None:
    scene, names = meeting
    scene.play(explore, names, schedules=A_TRIPLE, seed=_seed(meeting))


@pytest.mark.parametrize(("name", "names"), FOUND, ids=[f"{name}: {' | '.join(names)}" for name, names in FOUND])
def test_a_bug_that_was_found_does_not_return(name: str, names: tuple[str, ...], explore: Explorer) -> None:
    scene = next(scene for scene in SCENES if scene.name == name)
    scene.play(explore, names, schedules=A_BUG)


@heavy
@pytest.mark.parametrize("seed", range(PLANS))
def test_concurrent_random_plans_end_as_in_a_serial_order(seed: int, explore: Explorer) -> None:
    count = 3 if seed % 5 == 0 else 2
    explore(
        plans.operations(seed, count),
        prepare=plans.prepare,
        collections=plans.PLAN_COLLECTIONS,
        schedules=A_PLAN,
    )
