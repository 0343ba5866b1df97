"""Keeps leases alive while their work goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pymongo.errors import PyMongoError

from squinney.errors import SquinneyError
from squinney.patterns.leases import Lease, Leases

log = logging.getLogger(__name__)


class Keeper:
    """One thread that renews every lease in its care, three times within its length; it ends when there are none."""

    def __init__(self, leases: Leases, *, seconds: float) -> None:
        self._leases = leases
        self._seconds = seconds
        self._held: dict[str, Lease] = {}  # by token: a lease that ran out may be held anew in this very process
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def holding(self, name: str) -> Iterator[Lease | None]:
        """The lease for as long as the block runs, or None where somebody else holds it."""
        lease = self._leases.acquire(name, self._seconds)
        if lease is None:
            yield None
            return
        self._keep(lease)
        try:
            yield lease
        finally:
            self._let_go(lease)

    def _keep(self, lease: Lease) -> None:
        with self._lock:
            self._held[lease.token] = lease
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="squinney-leases", daemon=True)
                self._thread.start()

    def _let_go(self, lease: Lease) -> None:
        with self._lock:
            self._held.pop(lease.token, None)
        try:
            self._leases.release(lease)
        except (SquinneyError, PyMongoError) as error:
            log.warning("lease %s runs out by itself: %s", lease.name, error)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds / 3):
            with self._lock:
                held = list(self._held.values())
                if not held:
                    self._thread = None
                    return
            for lease in held:
                self._renew(lease)

    def _renew(self, lease: Lease) -> None:
        try:
            if not self._leases.renew(lease, self._seconds) and lease.token in self._held:
                log.warning("lease %s was taken over while its work went on", lease.name)
        except (SquinneyError, PyMongoError) as error:
            log.warning("lease %s could not be renewed: %s", lease.name, error)

    def close(self) -> None:
        """Renew nothing more."""
        self._stop.set()
