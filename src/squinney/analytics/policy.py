"""The retention policy, as those need it who store events or recompute from them; `Retention` changes it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db

Strategy = Literal["keep", "ttl", "rotate"]
Unit = Literal["day", "month"]

RETENTION = "analytics.retention"
POLICY = {"_id": "events"}
REFRESH_SECONDS = 1.0
# Strategies of older versions, and the present ones that delete no more than they did.
_FORMER = {"capped": "keep", "rotate-databases": "rotate"}


@dataclass(frozen=True)
class Policy:
    """What happens to old events. `keep_seconds` is their maximum age for ttl and rotate; None keeps all.

    New events with a time before `closed_before` are refused. Events before `frozen_before` are deleted or being
    deleted, and are never rolled up again.
    """

    strategy: Strategy = "keep"
    unit: Unit = "day"
    keep_seconds: int | None = None
    closed_before: datetime | None = None
    closed_at: datetime | None = None
    frozen_before: datetime | None = None

    def refusal(self, at: datetime) -> str:
        """Return why an event of this time is refused, or an empty string."""
        if self.closed_before is None or at >= self.closed_before:
            return ""
        return f"time is older than the retention policy keeps: from {self.closed_before:%Y-%m-%d} on"


def read_policy(db: Db) -> Policy:
    """Return the stored policy."""
    stored: Any = pinned(db)[RETENTION].find_one(POLICY) or {}
    known = {name: stored[name] for name in Policy.__dataclass_fields__ if name in stored}
    strategy = known.get("strategy", "keep")
    return Policy(**{**known, "strategy": _FORMER.get(strategy, strategy)})


class RecentPolicy:
    """The policy of at most `refresh_seconds` ago, for those who store many events."""

    def __init__(self, db: Db, *, refresh_seconds: float = REFRESH_SECONDS) -> None:
        self._db = db
        self._refresh_seconds = refresh_seconds
        self._policy = Policy()
        self._known_until = float("-inf")

    def __call__(self) -> Policy:
        if time.monotonic() >= self._known_until:
            self._policy = read_policy(self._db)
            self._known_until = time.monotonic() + self._refresh_seconds
        return self._policy
