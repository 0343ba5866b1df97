"""Child processes that start in milliseconds: they are forked from a server process with all modules imported."""

from __future__ import annotations

import multiprocessing

_modules = ["squinney.testing.crash.child", "squinney.transactions"]

children = multiprocessing.get_context("forkserver")


def preload(*modules: str) -> None:
    """Import these modules once, in the fork server, instead of in each child. Call it in `pytest_configure`."""
    _modules.extend(module for module in modules if module not in _modules)
    children.set_forkserver_preload(_modules)


preload()
