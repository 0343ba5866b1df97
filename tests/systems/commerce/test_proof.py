"""The kill test: shoppers in several processes, killed at random, then the jobs, then every promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from squinney.mongo.embedded import Embedded


@pytest.mark.timeout(300)
def test_shoppers_killed_at_random_break_no_promise(mongod: Embedded) -> None:
    """Thirty-two threads in four processes after a hundred units each of five SKUs."""
    limits = ["--seconds", "100", "--operations", "300", "--kill-every", "3"]
    arguments = ["prove", "commerce", *limits, "--workers", "4", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "squinney.cli.main", *arguments],
        env={**os.environ, "MONGODB_URI": mongod.uri, "SQUINNEY_SECRET": "test " * 8},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["operations"] > 50
    assert found["kills"] >= 1
    assert all(found["promises"].values())
