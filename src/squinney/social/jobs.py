"""What happens by itself: posts are delivered, and entries that nobody can see any more are removed."""

from __future__ import annotations

from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job
from squinney.social.network import Network
from squinney.social.tasks.sweep import sweep

BATCHES = 20


def deliver_posts(db: Db) -> dict[str, int]:
    """Work off what is queued.

    Atomic: each entry by itself.
    After a crash: the task goes on where it was, when its time has run out.
    """
    return Network(db).deliver()


@operation(60)
def sweep_entries(db: Db) -> dict[str, int]:
    """Remove entries of news and notices that can never be shown again, some thousands at a time.

    Atomic: each entry by itself.
    After a crash: the next run goes on.
    """
    db = pinned(db)
    return {what: sweep(db, what, batches=BATCHES) for what in ("news", "notices")}


JOBS = [
    Job("deliver-social-posts", every_seconds=1, run=deliver_posts, what="brings posts into the news of their readers"),
    Job("sweep-social-entries", every_seconds=60, run=sweep_entries, what="removes news that nobody may see any more"),
]
