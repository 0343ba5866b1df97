"""The background jobs of analytics."""

from __future__ import annotations

import logging
from collections import Counter

from squinney.analytics.events.pages import pack
from squinney.analytics.reports.days import update_reports
from squinney.analytics.retention import Retention
from squinney.analytics.rollups.rollups import Rollups
from squinney.analytics.visits.sessions import Sessions
from squinney.errors import Conflict, Invalid
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job

log = logging.getLogger(__name__)


def roll_up(db: Db) -> Counter[str]:
    """Derive sessions, if they were derived manually before, then run every roll-up that was run manually before.

    Atomic: as `Sessions.derive` and `Rollups.run`.
    After a crash: the next run continues.
    """
    done: Counter[str] = Counter()
    for sessions in Sessions.registered(db):
        done["sessions"] = sessions.derive().changed
    for rollups in Rollups.registered(db):
        try:
            done[rollups.name] = sum(rollups.run().buckets.values())
        except (Conflict, Invalid) as error:  # just stopped, or an operator must decide; the other roll-ups still run
            log.warning("roll-up %s did not run: %s", rollups.name, error.message)
            done[f"{rollups.name} refused"] += 1
    return done


JOBS = [
    Job("roll-up-events", every_seconds=30, run=roll_up, what="updates roll-ups with the events that have arrived"),
    Job("compute-reports", every_seconds=30, run=update_reports, what="computes the days of reports with new events"),
    Job("pack-events", every_seconds=300, run=pack, what="packs the small pages of each hour into large ones"),
    Job(
        "retain-events",
        every_seconds=60,
        run=lambda db: Retention(db).apply(),
        what="deletes the events that are older than the retention policy keeps",
    ),
]
