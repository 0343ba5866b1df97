"""Processes that are forked from one which has everything loaded: they begin in milliseconds."""

from __future__ import annotations

import multiprocessing

_named = ["squinney.testing.crash.deaths", "squinney.transactions"]

children = multiprocessing.get_context("forkserver")


def preload(*modules: str) -> None:
    """Name what the operations need, so that it is imported once and not in each process: from `pytest_configure`."""
    _named.extend(module for module in modules if module not in _named)
    children.set_forkserver_preload(_named)


preload()
