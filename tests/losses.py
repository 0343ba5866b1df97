"""Ways in which a replica set can lose its primary."""

from __future__ import annotations

from contextlib import suppress

from pymongo.errors import OperationFailure

from squinney.testing.replica_set import ReplicaSet


def kill(three: ReplicaSet) -> None:
    """Kill the primary, as a power loss would, and restart it after the election."""
    killed = three.kill_primary()
    three.primary(other_than=killed)
    three.restart(killed)


def step_down(three: ReplicaSet) -> None:
    """Step down the primary; retry, because it refuses until another member has caught up."""
    for _ in range(5):
        with suppress(OperationFailure):
            three.step_down()
            return
    raise AssertionError("the primary refused to step down five times")


def pause(three: ReplicaSet) -> None:
    """Pause the primary until another is elected; on resuming, it still believes that it is primary."""
    before = three.primary()
    pid = three.pid(before)
    three.pause(pid)
    try:
        three.primary(other_than=before)
    finally:
        three.resume(pid)
