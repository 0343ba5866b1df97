"""The programs of the systems' pages, run through a `mongos` on collections that are sharded as declared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sharded.conftest import VARIABLE, Sharded
from tools.run_docs import ROOT, program

from squinney import assembly

OWN_DATABASE = re.compile(r"squinney\.connect\(database=\"\w+\"\)")


@pytest.mark.parametrize("system", assembly.SYSTEMS, ids=lambda system: system.name)
def test_the_program_of_a_page_runs(sharded: Sharded, system: assembly.System, tmp_path: Path) -> None:
    db = sharded([*assembly.CORE_COLLECTIONS, *system.collections])
    script = tmp_path / "page.py"
    script.write_text(OWN_DATABASE.sub("squinney.connect()", program(ROOT / "docs" / f"{system.name}.md")))
    environment = {**os.environ, "MONGODB_URI": os.environ[VARIABLE], "SQUINNEY_DATABASE": db.name}
    ran = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3_000:]
