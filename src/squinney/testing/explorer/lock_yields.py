"""Let other operations run within one command, when the server yields its locks between two documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from squinney.mongo.schema import Db

WAIT_MILLISECONDS = 10
ITERATIONS = "internalQueryExecYieldIterations"


@contextmanager
def yielding_locks(db: Db, names: Sequence[str]) -> Iterator[None]:
    """In the `with` block, make the server yield its locks and wait at each document of the named collections."""
    if not names:
        yield
        return
    admin = db.client.admin
    before = admin.command({"setParameter": 1, ITERATIONS: 1})["was"]
    fail_point = {"configureFailPoint": "setYieldAllLocksWait"}
    try:
        for name in names:
            data = {"namespace": f"{db.name}.{name}", "waitForMillis": WAIT_MILLISECONDS}
            admin.command({**fail_point, "mode": "alwaysOn", "data": data})
        yield
    finally:
        admin.command({**fail_point, "mode": "off"})
        admin.command({"setParameter": 1, ITERATIONS: before})
