"""Give each run a temporary folder of its own, and fail the run if something of ours is left in it at the end.

All processes of the run use this folder, because they inherit `TMPDIR`. Other programs, such as the browser, leave what
they like there; only what begins with our prefixes counts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any

import pytest

from squinney.testing.plugin import RUN_FOLDER
from tests.plugins.watch import BROKEN_RULE

OURS = ("sq", "tmp")  # `tmp` is what Python's `tempfile` uses without a prefix
FOLDER = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Set the folder before any process is started; pytest's own folders stay where they can be looked at later."""
    if not hasattr(config, "workerinput"):
        get_temp_dir()  # `multiprocessing` keeps its own folder until this process ends, and must still find it then
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        config.stash[FOLDER] = Path(tempfile.mkdtemp(prefix="sqt-"))
        os.environ["TMPDIR"] = tempfile.tempdir = str(config.stash[FOLDER])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, Any, Any]:
    """Fail the run if a folder is left after all test processes have ended."""
    result = yield
    if FOLDER in session.config.stash and (left := _left(session.config.stash[FOLDER])):
        print(f"\nFAILED the tests left {len(left)} temporary folders or files: {', '.join(left[:10])}")
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = BROKEN_RULE
    return result


def _left(folder: Path) -> list[str]:
    servers = Path(os.environ.get(RUN_FOLDER, "")).name  # removed later, when the servers have stopped
    return sorted(one.name for one in folder.iterdir() if one.name.startswith(OURS) and one.name != servers)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder."""
    if FOLDER in config.stash:
        folder = config.stash[FOLDER]
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder.parent)
        shutil.rmtree(folder, ignore_errors=True)
