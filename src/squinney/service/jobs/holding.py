"""Holds a lease while its work goes on."""

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
    """The lease for as long as the block runs, or None where somebody else holds it; a thread of its own renews it."""
    lease = leases.acquire(name, seconds)
    if lease is None:
        yield None
        return
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(leases, lease, seconds, ended), name="squinney-lease", daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        ended.set()
        try:
            leases.release(lease)
        except (SquinneyError, PyMongoError) as error:
            log.warning("lease %s runs out by itself: %s", lease.name, error)


def _renew(leases: Leases, lease: Lease, seconds: float, ended: threading.Event) -> None:
    while not ended.wait(seconds / 3):
        try:
            if not leases.renew(lease, seconds) and not ended.is_set():
                log.warning("lease %s was taken over while its work went on", lease.name)
        except (SquinneyError, PyMongoError) as error:
            log.warning("lease %s could not be renewed: %s", lease.name, error)
