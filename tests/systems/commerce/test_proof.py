"""Kills processes of shoppers at random, runs the jobs, and checks every promise."""

from __future__ import annotations

import pytest
from tests.proving import require_proof

from squinney.mongo.embedded import Embedded


@pytest.mark.timeout(300)
def test_shoppers_killed_at_random_break_no_promise(mongod: Embedded) -> None:
    """32 threads in 4 processes compete for 100 units each of 5 SKUs."""
    require_proof(mongod, "commerce", "--seconds", "100", "--operations", "150", "--kill-every", "3", "--workers", "4")
