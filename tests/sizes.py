"""The size of heavy proofs: a tenth in a normal test run, or other cases each day; all of it with `make prove`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

import pytest

T = TypeVar("T")
DAY = "SQUINNEY_TEST_DAY"
IN_FULL = os.environ.get("SQUINNEY_PROVE") == "full"
heavy = pytest.mark.heavy  # `make prove` runs the tests with this mark at full size


def a_tenth_of(full: int) -> int:
    """Return a tenth of `full`, or `full` itself with `make prove`."""
    return full if IN_FULL else full // 10


def day() -> int:
    """Return the number of the day on which the run began, also in its other processes after midnight."""
    return int(os.environ.setdefault(DAY, str(datetime.now(UTC).toordinal())))


def todays(cases: Sequence[T], *, of: int) -> Sequence[T]:
    """Return every `of`-th case, other ones each day until all had their turn; all of them with `make prove`."""
    return cases if IN_FULL else cases[day() % of :: of]
