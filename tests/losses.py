"""The ways in which a replica set loses its primary."""

from __future__ import annotations

from contextlib import suppress

from pymongo.errors import OperationFailure

from squinney.testing.replica_set import ReplicaSet


def kill(three: ReplicaSet) -> None:
    """As a power loss would; it comes back."""
    killed = three.kill_primary()
    three.wait_for_primary(other_than=killed)
    three.restart(killed)


def step_down(three: ReplicaSet) -> None:
    """Refused while no other member has caught up, which under load may take more than one attempt."""
    for _ in range(5):
        with suppress(OperationFailure):
            three.step_down()
            return
    raise AssertionError("the primary would not step down")


def pause(three: ReplicaSet) -> None:
    """The old primary comes back believing that it still is one."""
    before = three.primary()
    pid = three.pid(before)
    three.pause(pid)
    try:
        three.wait_for_primary(other_than=before)
    finally:
        three.resume(pid)
