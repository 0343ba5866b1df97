"""Record the walks of `docs/architecture.md` and write them there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", "tests/api/test_walks.py"]
    sys.exit(subprocess.call(command, cwd=ROOT, env={**os.environ, "SQUINNEY_WRITE_WALKS": "1"}))  # noqa: S603
