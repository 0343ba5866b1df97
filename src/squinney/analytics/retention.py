"""`Retention`: the policy for old events, which can be changed at any time."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from bson.timestamp import Timestamp

from squinney import checks
from squinney.analytics.calendar import floor
from squinney.analytics.errors import NotRolledUp
from squinney.analytics.events import queries
from squinney.analytics.events.documents import EVENTS, LOG_COLLECTIONS
from squinney.analytics.policy import POLICY, RETENTION, Policy, Strategy, Unit, read_policy
from squinney.analytics.rollups.documents import RUNS
from squinney.analytics.rollups.rollups import arrived_since
from squinney.errors import Conflict, Invalid
from squinney.mongo import schema
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.mongo.server_time import server_now

MIN_SECONDS, MAX_SECONDS = 60, 2_147_483_647
# Writers notice a closed time within 1 s, and a write takes at most 60 s: after that no event of that time can arrive.
GRACE_SECONDS = 70
SECONDS = 3_600
# A new policy may keep what the old one had closed; only times whose events were deleted stay closed.
_REOPENED = {"closed_before": "$frozen_before", "closed_at": "$$REMOVE"}


class Retention:
    """The policy for old events. To change it is one write: no event moves.

    `keep` keeps all events. `ttl` deletes each page of events at an age. `rotate` deletes whole days or months at an
    age, after every roll-up has counted them. The job `retain-events` calls `apply`.
    """

    def __init__(self, db: Db, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._db = pinned(db)
        self._grace_seconds = grace_seconds

    @operation(reads_only=True)
    def policy(self) -> Policy:
        """Return the current policy."""
        return read_policy(self._db)

    @operation()
    def switch(self, strategy: Strategy, *, unit: Unit = "day", keep_seconds: int | None = None) -> Policy:
        """Set the policy; times that are closed but not deleted are reopened.

        Atomic: the update of the policy.
        After a crash: nothing remains. If a roll-up was started in the very moment of the update, the policy may remain
        although it should be refused.
        Raises: `Invalid`; `Conflict` for a strategy that could delete events before roll-ups have counted them.
        """
        _check(strategy, unit, keep_seconds)
        self._require_no_roll_up(strategy)
        schema.require_ours(self._db, [collection for collection in LOG_COLLECTIONS if collection.name == EVENTS])
        wanted: dict[str, Any] = {"strategy": strategy, "unit": unit, "keep_seconds": keep_seconds, **_REOPENED}
        before = self._db[RETENTION].find_one_and_update(POLICY, [{"$set": wanted}], upsert=True)
        try:
            self._require_no_roll_up(strategy)
        except Conflict:  # a roll-up was started at the same moment
            self._db[RETENTION].replace_one(POLICY, before or {})
            raise
        return self.policy()

    @operation(SECONDS)
    def apply(self) -> Counter[str]:
        """Delete what is too old; days and months are closed first, and deleted when no write to them can be running.

        Atomic: the update of the policy that closes or freezes a time; each page.
        After a crash: the next call continues.
        """
        done: Counter[str] = Counter()
        policy = self.policy()
        if policy.strategy == "ttl":
            done["deleted"] = self._delete_older(policy.keep_seconds or 0)
        if policy.strategy == "rotate":
            done["deleted"] = self._delete_closed(done)
            done["closed"] = self._close()
        return +done

    def _require_no_roll_up(self, strategy: Strategy) -> None:
        if strategy == "ttl" and self._db[RUNS].find_one({"config.source": EVENTS, "stopped": None}):
            message = "strategy must be keep or rotate while roll-ups run: ttl deletes events that are not counted"
            raise Conflict(message, field="strategy")

    def _delete_older(self, seconds: int) -> int:
        oldest = server_now(self._db) - timedelta(seconds=seconds)
        # guard: a page is deleted when its last event is too old
        old = {**queries.BEFORE(end=oldest), "to": {"$lt": oldest}}
        return self._db[EVENTS].delete_many(old).deleted_count

    def _close(self) -> int:
        """Close the days and months that are too old: new events of that time are refused from now on."""
        policy = self.policy()
        if policy.keep_seconds is None:
            return 0
        now = server_now(self._db)
        due = floor(now - timedelta(seconds=policy.keep_seconds), policy.unit, UTC)
        if policy.closed_before and due <= policy.closed_before:
            return 0
        if queries.BEFORE.find_one(self._db, end=due, projection={"_id": 1}) is None:
            return 0
        unchanged = {**POLICY, "closed_before": policy.closed_before}
        closed: dict[str, Any] = {"closed_before": due, "closed_at": now}
        return self._db[RETENTION].update_one(unchanged, {"$set": closed}).modified_count

    def _delete_closed(self, done: Counter[str]) -> int:
        """Freeze a time that was closed long enough ago, and delete its pages."""
        policy = self.policy()
        if policy.closed_before and policy.closed_at:
            if server_now(self._db) < policy.closed_at + timedelta(seconds=self._grace_seconds):
                return 0
            try:
                self.freeze(policy.closed_before, closed_at=policy.closed_at)
            except NotRolledUp:
                done["waiting for roll-ups"] += 1
        # guard: only a frozen time is deleted
        frozen = self.policy().frozen_before
        return self._db[EVENTS].delete_many(queries.BEFORE(end=frozen)).deleted_count if frozen else 0

    @operation(SECONDS)
    def freeze(self, before: datetime, *, closed_at: datetime) -> bool:
        """Tell roll-ups that the events before a closed time go; return False if a new policy has reopened it.

        Atomic: the update of the policy, if `closed_at` is unchanged.
        After a crash: nothing remains.
        Raises: `NotRolledUp` if a roll-up has not counted all of its events.
        """
        for rollup in self._db[RUNS].find({"config.source": EVENTS, "stopped": None}):
            watermark = rollup.get("watermark") or Timestamp(0, 0)
            too_early = watermark.time < closed_at.timestamp() + self._grace_seconds
            uncounted = {**arrived_since(watermark), **queries.BEFORE(end=before)}
            if too_early or self._db[EVENTS].find_one(uncounted, {"_id": 1}):
                raise NotRolledUp(f"{rollup['_id']} has not counted all events before {before:%Y-%m-%d} yet")
        frozen = {"frozen_before": before}
        unchanged = {**POLICY, "closed_at": closed_at}
        return self._db[RETENTION].update_one(unchanged, {"$max": frozen}).matched_count == 1


def _check(strategy: Any, unit: Any, keep_seconds: Any) -> None:
    if strategy not in get_args(Strategy):
        raise Invalid(f"strategy must be one of {', '.join(get_args(Strategy))}", field="strategy")
    if unit not in get_args(Unit):
        raise Invalid("unit must be one of day, month", field="unit")
    if keep_seconds is not None or strategy == "ttl":
        checks.integer(keep_seconds, "keep_seconds", minimum=MIN_SECONDS, maximum=MAX_SECONDS)
