"""How large a heavy proof is: a tenth in every run, in full by `make prove`."""

from __future__ import annotations

import os

import pytest

IN_FULL = os.environ.get("SQUINNEY_PROVE") == "full"
heavy = pytest.mark.heavy  # `make prove` runs what bears it


def a_tenth_of(full: int) -> int:
    """So many, or all of them."""
    return full if IN_FULL else full // 10
