"""Crash every case at its writes, in each mode and in each way."""

from __future__ import annotations

import os

import pytest

from squinney.mongo.embedded import Embedded
from squinney.testing import Case, counts
from squinney.testing.crash.child import WAYS, Way
from squinney.transactions import Mode
from tests.crash.case import cases
from tests.plugins.shelf import Prepared
from tests.sizes import IN_FULL, heavy

ALWAYS_IN_FULL = "ledger"
WANTED = [name for name in os.environ.get("SQUINNEY_SWEEP", "").split(",") if name]
ALL = cases()
CASES = [case for case in ALL if not WANTED or case.system in WANTED]


def _in_full(case: Case) -> bool:
    return IN_FULL or case.system == ALWAYS_IN_FULL


def _sweeps(number: int, case: Case) -> list[tuple[Case, Mode, Way]]:
    """Return the sweeps of a case: all with `make prove`, each mode once for the ledger, one for other systems."""
    every = [(case, mode, way) for mode in case.modes for way in WAYS]
    if IN_FULL:
        return every
    if _in_full(case):
        return [(case, mode, WAYS[(number + other) % len(WAYS)]) for other, mode in enumerate(case.modes)]
    return [every[number % len(every)]]


def _every(case: Case) -> int:
    """Crash at every n-th write: at each for the ledger and with `make prove`, else at every third.

    A demo sends hundreds of writes, which other cases cover; it crashes at every twentieth.
    """
    if IN_FULL:
        return 1
    if case.name.endswith(".demo"):
        return 20
    return 1 if _in_full(case) else 3


SWEEPS = [one for number, case in enumerate(CASES) for one in _sweeps(number, case)]
NAMES = [f"{case.name}-{mode}-{way}" for case, mode, way in SWEEPS]


@heavy
@pytest.mark.usefixtures("quick_passwords")
@pytest.mark.parametrize(("case", "mode", "way"), SWEEPS, ids=NAMES)
def test_a_crash_at_any_write_is_mended(
    case: Case, mode: Mode, way: Way, prepared: Prepared, mongod: Embedded, pytestconfig: pytest.Config
) -> None:
    db = prepared(case.all_collections)
    points = ALL.sweep(case, mode, way, db=db, socket=mongod.socket, every=_every(case))
    assert points, "the operation wrote nothing"
    counts.count(pytestconfig, "crash points", points)
