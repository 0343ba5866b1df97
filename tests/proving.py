"""Run `squinney prove SYSTEM` as a user does, at a size suitable for every test run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from squinney.mongo.embedded import Embedded


def require_proof(mongod: Embedded, system: str, *options: str) -> None:
    """Assert that the proof did some operations, killed some workers, and found every promise kept."""
    done = subprocess.run(
        [sys.executable, "-m", "squinney.service.commands.main", "prove", system, *options, "--json"],
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
