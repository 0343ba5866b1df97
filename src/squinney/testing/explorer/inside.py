"""Lets others go on inside of one command, where the server lets go of its locks between two documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from squinney.mongo.schema import Db

WAIT_MILLISECONDS = 10
ITERATIONS = "internalQueryExecYieldIterations"


@contextmanager
def letting_in(db: Db, names: Sequence[str]) -> Iterator[None]:
    """Inside, the server waits at every document that a command looks at in the named collections."""
    if not names:
        yield
        return
    admin = db.client.admin
    before = admin.command({"setParameter": 1, ITERATIONS: 1})["was"]
    fail_point = {"configureFailPoint": "setYieldAllLocksWait"}
    try:
        for name in names:
            where = {"namespace": f"{db.name}.{name}", "waitForMillis": WAIT_MILLISECONDS}
            admin.command({**fail_point, "mode": "alwaysOn", "data": where})
        yield
    finally:
        admin.command({**fail_point, "mode": "off"})
        admin.command({"setParameter": 1, ITERATIONS: before})
