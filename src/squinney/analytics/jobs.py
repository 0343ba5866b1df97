"""What runs in the background."""

from __future__ import annotations

import logging
from collections import Counter

from squinney.analytics.events.retention import Retention
from squinney.analytics.rollups.rollups import Rollups
from squinney.analytics.visits.sessions import Sessions
from squinney.errors import Conflict
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job

log = logging.getLogger(__name__)


def roll_up(db: Db) -> Counter[str]:
    """Derive sessions where somebody has begun to, then run every roll-up that has been run by hand once.

    Atomic: as `Sessions.derive` and `Rollups.run`.
    After a crash: the next time goes on.
    """
    done: Counter[str] = Counter()
    for sessions in Sessions.registered(db):
        done["sessions"] = sessions.derive().changed
    for rollups in Rollups.registered(db):
        try:
            done[rollups.name] = sum(rollups.run().buckets.values())
        except Conflict as error:  # stopped at this moment, or in need of a person: the others go on
            log.warning("%s is not rolled up: %s", rollups.name, error.message)
            done[f"{rollups.name} refused"] += 1
    return done


JOBS = [
    Job("roll-up-events", every_seconds=30, run=roll_up, what="brings roll-ups up to date with what has arrived"),
    Job(
        "retain-events",
        every_seconds=60,
        run=lambda db: Retention(db).apply(),
        what="moves events to where the retention policy wants them, and drops what is too old",
    ),
]
