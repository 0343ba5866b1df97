"""Leases: one holder at a time, for a while, by the server's clock alone.

No holder's own wall clock takes part: the server compares and sets every deadline (`$$NOW`), and a holder knows by its
monotonic clock, counted from before it asked, that its lease still runs. A lease saves work; it cannot stop a holder
that was paused in mid-step. What must not happen twice is guarded where it is written, by `Lease.term`, which grows
with each new holder, or by being idempotent.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Any

from squinney import checks
from squinney.mongo.connect import after, operation
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db, Document

NAME = "leases"
COLLECTIONS = [Collection(NAME, shard_key={"_id": "hashed"})]

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
    reason="the leases of all jobs at once, some dozens",
)
QUERIES: list[Query | Pipeline] = [LEASE, HELD, RUNNING]


@dataclass
class Lease:
    """What a holder has in hand. `term` counts the holders: a later one's is greater."""

    name: str
    token: str
    term: int
    sure_until: float  # on this process's monotonic clock

    @property
    def is_sure(self) -> bool:
        """Whether it is certain that nobody else holds it yet."""
        return time.monotonic() < self.sure_until


def process_name() -> str:
    """This process, as people look for it: host and process number."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Leases:
    """Leases by name; `holder` is what others are told of this process."""

    def __init__(self, db: Db, *, holder: str | None = None) -> None:
        self._leases = pinned(db)[NAME]
        self.holder = holder or process_name()

    @operation()
    def acquire(self, name: str, seconds: float) -> Lease | None:
        """Take the lease for so long if it is free or has run out; None while somebody else holds it.

        Atomic: one update, decided by the server's clock.
        After a crash: the lease runs out by itself.
        Raises: `Invalid`, `Unavailable`.
        """
        checks.text(name, "name", least=1, most=200)
        asked = time.monotonic()
        token = secrets.token_hex(16)
        found = self._leases.find_one_and_update(
            LEASE(name=name), _take(token, self.holder, seconds), upsert=True, return_document=True
        )
        if found is None or found.get("token") != token:
            return None
        return Lease(name, token, int(found["term"]), asked + seconds)

    @operation()
    def renew(self, lease: Lease, seconds: float) -> bool:
        """Hold on for so long from now; False where it ran out and another took it.

        Atomic: one update.
        After a crash: the lease runs out by itself.
        Raises: `Unavailable`.
        """
        asked = time.monotonic()
        renewed = self._leases.update_one(
            HELD(name=lease.name, token=lease.token), [{"$set": {"until": after(seconds)}}]
        )
        if renewed.matched_count:
            lease.sure_until = asked + seconds
        return renewed.matched_count > 0

    @operation()
    def release(self, lease: Lease) -> None:
        """Let the next one in at once; nothing happens where it was lost already.

        Atomic: one update.
        After a crash: the lease runs out by itself.
        Raises: `Unavailable`.
        """
        lease.sure_until = 0
        self._leases.update_one(
            HELD(name=lease.name, token=lease.token), [{"$set": {"until": "$$NOW"}}, {"$unset": ["token", "holder"]}]
        )

    @operation(reads_only=True)
    def look(self, name: str) -> Document | None:
        """The lease as stored: holder, term, until."""
        return self._leases.find_one(LEASE(name=name))


def _take(token: str, holder: str, seconds: float) -> list[Document]:
    """An upsert's filter may hold no `$expr`, so that the update itself decides, and says so by the token it leaves."""
    free: Any = {"$lte": [{"$ifNull": ["$until", "$$NOW"]}, "$$NOW"]}
    taken = {
        "token": token,
        "holder": {"$literal": holder},
        "until": after(seconds),
        "term": {"$add": [{"$ifNull": ["$term", 0]}, 1]},
    }
    return [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"$cond": [free, taken, {}]}]}}]
