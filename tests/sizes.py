"""The size of heavy proofs: a tenth in a normal test run, full size with `make prove`."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

DAY = "SQUINNEY_TEST_DAY"
IN_FULL = os.environ.get("SQUINNEY_PROVE") == "full"
heavy = pytest.mark.heavy  # `make prove` runs the tests with this mark at full size


def a_tenth_of(full: int) -> int:
    """Return a tenth of `full`, or `full` itself with `make prove`."""
    return full if IN_FULL else full // 10


def day() -> int:
    """Return the number of the day on which the run began, also in its other processes after midnight."""
    return int(os.environ.setdefault(DAY, str(datetime.now(UTC).toordinal())))
