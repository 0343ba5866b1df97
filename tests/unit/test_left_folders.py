"""A run of tests that leaves a temporary folder fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.plugins.watch import BROKEN_RULE

ROOT = Path(__file__).parents[2]
LEAVES = "import tempfile\n\ndef test_it():\n    [tempfile.mkdtemp(prefix=prefix) for prefix in {prefixes!r}]\n"


@pytest.mark.parametrize(("prefixes", "code"), [(["sqp-", "tmp", "pymp-"], BROKEN_RULE), (["pymp-"], 0)])
def test_a_run_that_leaves_a_folder_fails_and_removes_it(tmp_path: Path, prefixes: list[str], code: int) -> None:
    (tmp_path / "test_leaves.py").write_text(LEAVES.format(prefixes=prefixes))
    folder = tmp_path / "t"
    folder.mkdir()
    plugins = ["-p", "tests.plugins.watch", "-p", "tests.plugins.left_folders", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, "--rootdir", str(tmp_path), str(tmp_path / "test_leaves.py")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": "", "TMPDIR": str(folder)},
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("FAILED the tests left 2 temporary" in done.stdout) == bool(code)
    assert [one.name for one in folder.iterdir() if not one.name.startswith("pytest-of-")] == []
