"""The size of heavy proofs: a tenth in a normal test run, full size with `make prove`."""

from __future__ import annotations

import os

import pytest

IN_FULL = os.environ.get("SQUINNEY_PROVE") == "full"
heavy = pytest.mark.heavy  # `make prove` runs the tests with this mark at full size


def a_tenth_of(full: int) -> int:
    """Return a tenth of `full`, or `full` itself with `make prove`."""
    return full if IN_FULL else full // 10
