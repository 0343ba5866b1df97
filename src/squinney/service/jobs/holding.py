"""Holds a lease while a block of code runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pymongo.errors import PyMongoError

from squinney.errors import SquinneyError
from squinney.patterns.leases import Lease, Leases

log = logging.getLogger(__name__)


@contextmanager
def holding(leases: Leases, name: str, *, seconds: float) -> Iterator[Lease | None]:
    """Hold the lease while the block runs, renewed by a thread; yield None if another holder has the lease."""
    lease = leases.acquire(name, seconds)
    if lease is None:
        yield None
        return
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(leases, lease, seconds, ended), name="squinney-lease", daemon=True)
    # guard: a lease is renewed while its work runs
    renewing.start()
    try:
        yield lease
    finally:
        ended.set()
        try:
            # guard: a lease is released when its work ends
            leases.release(lease)
        except (SquinneyError, PyMongoError) as error:
            log.warning("lease %s could not be released and will expire: %s", lease.name, error)


def _renew(leases: Leases, lease: Lease, seconds: float, ended: threading.Event) -> None:
    while not ended.wait(seconds / 3):
        try:
            if not leases.renew(lease, seconds) and not ended.is_set():
                log.warning("lease %s was taken over while its work was running", lease.name)
        # guard: a lease is renewed again after a failed renewal
        except (SquinneyError, PyMongoError) as error:
            log.warning("lease %s could not be renewed: %s", lease.name, error)
