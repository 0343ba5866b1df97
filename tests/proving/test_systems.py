"""`squinney prove SYSTEM` as a user runs it: processes are killed at random, and no promise may be broken.

It runs at a small size, for other systems each day. `make prove` runs the command for every system at full size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.sizes import todays

from squinney.mongo.embedded import Embedded

OPERATIONS = {"ledger": 500, "commerce": 150, "ads": 120, "content": 120, "game": 120, "social": 60}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("system", todays([*OPERATIONS], of=3))
def test_no_promise_is_broken(system: str, mongod: Embedded) -> None:
    size = ["--operations", str(OPERATIONS[system]), "--seconds", "100", "--kill-every", "2", "--workers", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "squinney.service.commands.main", "prove", system, *size, "--json"],
        env={**os.environ, "MONGODB_URI": mongod.uri, "SQUINNEY_SECRET": "test " * 8},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["operations"] >= OPERATIONS[system]
    assert found["kills"] >= 1
    assert all(found["promises"].values())
