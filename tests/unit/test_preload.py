"""Children begin with all they need: one that had to import it would take a hundred times as long, and pass."""

from __future__ import annotations

import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from squinney.testing.children import children


def tell_modules(pipe: Connection) -> None:
    pipe.send(set(sys.modules))


def test_a_child_begins_with_everything_loaded() -> None:
    ours, theirs = Pipe(duplex=False)
    child = children.Process(target=tell_modules, args=(theirs,))
    child.start()
    loaded = ours.recv()
    child.join()
    assert {"tests.preload", "squinney.testing.crash.child", "squinney.service.commands.main"} <= loaded
    assert {"tests.crash.cases_polls", "tests.crash.cases_ledger", "polls"} <= loaded
