"""The kill test: shoppers in several processes, killed at random, then the jobs, then every promise."""

from __future__ import annotations

import pytest
from tests.proving import require_proof

from squinney.mongo.embedded import Embedded


@pytest.mark.timeout(300)
def test_shoppers_killed_at_random_break_no_promise(mongod: Embedded) -> None:
    """Thirty-two threads in four processes after a hundred units each of five SKUs."""
    require_proof(mongod, "commerce", "--seconds", "100", "--operations", "300", "--kill-every", "3", "--workers", "4")
