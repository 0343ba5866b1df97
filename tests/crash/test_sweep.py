"""Crash every case at its writes, in each way."""

from __future__ import annotations

import os

import pytest

from squinney.mongo.embedded import Embedded
from squinney.testing import Case, counts
from squinney.testing.crash.child import WAYS, Way
from tests.crash.case import cases
from tests.plugins.shelf import Prepared
from tests.sizes import IN_FULL, day, heavy

ALWAYS_IN_FULL = "ledger"
WANTED = [name for name in os.environ.get("SQUINNEY_SWEEP", "").split(",") if name]
ALL = cases()
DAYS = 2  # so often is a case swept, the next time in another way
CASES = [case for case in ALL if not WANTED or case.system in WANTED]


def _in_full(case: Case) -> bool:
    return IN_FULL or case.system == ALWAYS_IN_FULL


def _sweeps(number: int, case: Case) -> list[tuple[Case, Way]]:
    """Return the sweeps of a case: all with `make prove`, otherwise two of the ledger and one of today's others."""
    every = [(case, way) for way in WAYS]
    if IN_FULL:
        return every
    turn = number + day()
    if _in_full(case):
        return [every[(turn + other) % len(every)] for other in range(2)]
    return [every[turn // DAYS % len(every)]] if turn % DAYS == 0 else []


def _every(case: Case) -> int:
    """Crash at every n-th write: at each for the ledger and with `make prove`, else at every third.

    A demo sends hundreds of writes, which other cases cover; it crashes at every twentieth.
    """
    if IN_FULL:
        return 1
    if case.name.endswith(".demo"):
        return 20
    return 1 if _in_full(case) else 3


SWEEPS = [sweep for number, case in enumerate(CASES) for sweep in _sweeps(number, case)]
NAMES = [f"{case.name}-{way}" for case, way in SWEEPS]


@heavy
@pytest.mark.usefixtures("quick_passwords")
@pytest.mark.parametrize(("case", "way"), SWEEPS, ids=NAMES)
def test_a_crash_at_any_write_is_mended(
    case: Case, way: Way, prepared: Prepared, mongod: Embedded, pytestconfig: pytest.Config
) -> None:
    db = prepared(case.all_collections)
    points = ALL.sweep(case, way, db=db, socket=mongod.socket, every=_every(case))
    assert points, "the operation wrote nothing"
    counts.count(pytestconfig, "crash points", points)
