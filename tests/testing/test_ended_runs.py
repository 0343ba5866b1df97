"""A run of tests that is ended from outside leaves no server and no folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.processes import is_alive

from squinney.testing import servers

ROOT = Path(__file__).parents[2]
WAITS = """
import os, time
from pathlib import Path

def test_it(mongod):
    Path("running").write_text(f"{mongod.pid} {mongod.folder.parent}")
    time.sleep(120)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a test that uses the server and waits, and the folder `t` for what it leaves."""
    (tmp_path / "t").mkdir()
    (tmp_path / "test_waits.py").write_text(WAITS)
    return tmp_path


def _run(project: Path) -> tuple[subprocess.Popen[bytes], int, Path]:
    """Start pytest in a process group of its own; return it when its test runs, and the server's pid and run folder."""
    plugins = ["tests.plugins.watch", "tests.plugins.left_folders", "squinney.testing.plugin", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *(f"-p{plugin}" for plugin in plugins)]
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SQUINNEY"))}
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    theirs = {"PYTHONPATH": path, "TMPDIR": str(project / "t"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.Popen(
        [*command, "--rootdir", str(project), str(project / "test_waits.py")],
        cwd=project,
        env={**ours, **theirs},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    running, until = project / "running", time.monotonic() + 120
    while not (running.exists() and running.read_text()):
        assert run.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    pid, folder = running.read_text().split(maxsplit=1)
    return run, int(pid), Path(folder)


def test_sigterm_leaves_nothing(project: Path) -> None:
    run, server, folder = _run(project)
    run.send_signal(signal.SIGTERM)
    assert run.wait(120) == pytest.ExitCode.INTERRUPTED
    assert not is_alive(server)
    assert not folder.exists()
    assert [left.name for left in (project / "t").iterdir() if not left.name.startswith("pytest-of-")] == []


def test_what_a_killed_run_left_is_removed_by_the_next_one(project: Path) -> None:
    run, server, folder = _run(project)
    servers.remove_abandoned(beside=folder)
    assert is_alive(server)
    assert folder.exists()
    run.kill()
    run.wait()
    assert is_alive(server)
    servers.remove_abandoned(beside=folder)
    assert not is_alive(server)
    assert not folder.exists()
