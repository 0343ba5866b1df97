"""Every case, in each mode, dies in each way at each write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.patterns.transactions import Mode
from tests.crash.case import Case, cases
from tests.crash.deaths import WAYS, Way
from tests.crash.sweep import sweep

SWEEPS = [(case, mode, way) for case in cases().values() for mode in case.modes for way in WAYS]
NAMES = [f"{case.name}-{mode}-{way}" for case, mode, way in SWEEPS]


@pytest.mark.parametrize(("case", "mode", "way"), SWEEPS, ids=NAMES)
def test_a_crash_at_any_write_is_mended(
    case: Case, mode: Mode, way: Way, db: Db, mongod: Embedded, count_crash_points: Callable[[int], None]
) -> None:
    points = sweep(case, mode, way, db, mongod.socket)
    assert points, "the operation wrote nothing"
    count_crash_points(points)
