"""Leases: one holder at a time, for a limited time, by the server's clock alone.

No holder's wall clock is used: the server sets and compares every deadline (`$$NOW`). A holder knows by its monotonic
clock, started before its request, that its lease is still valid. A lease saves work, but cannot stop a holder that was
paused between two steps. A write that must not happen twice needs a guard of its own: `Lease.term`, which grows with
each new holder, or an idempotent update.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Any

from squinney import checks
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db, Document
from squinney.mongo.server_time import after

NAME = "squinney.leases"
COLLECTIONS = [Collection(NAME, formerly="leases", shard_key={"_id": "hashed"})]

LEASE = Query("leases.lease", NAME, where=lambda name: {"_id": name}, example={"name": "job:recover"})
HELD = Query(
    "leases.held", NAME, where=lambda name, token: {"_id": name, "token": token}, example={"name": "a", "token": "t"}
)
RUNNING = Query(
    "leases.running",
    NAME,
    where=lambda names: {"_id": {"$in": names}, "$expr": {"$gt": ["$until", "$$NOW"]}},
    example={"names": ["job:recover", "job:expire"]},
    routing="few",
    reason="reads the leases of all jobs together, a few dozen",
)
QUERIES: list[Query | Pipeline] = [LEASE, HELD, RUNNING]


@dataclass
class Lease:
    """An acquired lease. `term` counts its holders, so that a later holder has a greater one."""

    name: str
    token: str
    term: int
    sure_until: float  # on this process's monotonic clock

    @property
    def is_sure(self) -> bool:
        """Whether no other process can hold the lease yet."""
        # guard: an expired lease is not sure
        return time.monotonic() < self.sure_until


class Leases:
    """Leases by name; `holder` is the name of this process, for people: by default its host and its id."""

    def __init__(self, db: Db, *, holder: str | None = None) -> None:
        self._leases = pinned(db)[NAME]
        self.holder = holder or f"{socket.gethostname()}:{os.getpid()}"

    @operation()
    def acquire(self, name: str, seconds: float) -> Lease | None:
        """Acquire the lease for `seconds` if it is free or expired; return None while another process holds it.

        Raises: `Invalid`, `Unavailable`.
        """
        checks.text(name, "name", min_length=1, max_length=200)
        requested = time.monotonic()
        token = secrets.token_hex(16)
        lease = self._leases.find_one_and_update(
            LEASE(name=name), _acquisition(token, self.holder, seconds), upsert=True, return_document=True
        )
        # guard: only the process whose token is stored holds a lease
        if lease is None or lease.get("token") != token:
            return None
        # guard: a lease counts from before its request
        return Lease(name, token, int(lease["term"]), requested + seconds)

    @operation()
    def renew(self, lease: Lease, seconds: float) -> bool:
        """Extend the lease to `seconds` from now; return False if another process has acquired it.

        Raises: `Unavailable`.
        """
        requested = time.monotonic()
        renewed = self._leases.update_one(
            # guard, 2 lines: only its holder renews a lease
            HELD(name=lease.name, token=lease.token),
            [{"$set": {"until": after(seconds)}}],
        )
        # guard: a lost lease cannot be renewed
        if renewed.matched_count:
            # guard: a renewed lease counts from before the request
            lease.sure_until = requested + seconds
        return renewed.matched_count > 0

    @operation()
    def release(self, lease: Lease) -> None:
        """Free the lease for another process; a lease that was already lost is not changed.

        Raises: `Unavailable`.
        """
        # guard: a released lease is not sure
        lease.sure_until = 0
        self._leases.update_one(
            # guard, 2 lines: only its holder releases a lease
            HELD(name=lease.name, token=lease.token),
            # guard: a release frees the lease at once
            [{"$set": {"until": "$$NOW"}}, {"$unset": ["token", "holder"]}],
        )

    @operation(reads_only=True)
    def look(self, name: str) -> Document | None:
        """Return the stored lease: holder, term, until."""
        return self._leases.find_one(LEASE(name=name))


def _acquisition(token: str, holder: str, seconds: float) -> list[Document]:
    """Return the update that stores the token if the lease is free.

    The filter of an upsert cannot contain `$expr`, so the update decides, and the stored token shows the decision.
    """
    free: Any = {"$lte": [{"$ifNull": ["$until", "$$NOW"]}, "$$NOW"]}
    taken = {
        "token": token,
        "holder": {"$literal": holder},
        "until": after(seconds),
        # guard: each holder has a greater term
        "term": {"$add": [{"$ifNull": ["$term", 0]}, 1]},
    }
    # guard: a valid lease is not acquired by another process
    return [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"$cond": [free, taken, {}]}]}}]
