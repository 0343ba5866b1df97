"""Background jobs: delivering posts, and removing news and notices that can no longer be shown."""

from __future__ import annotations

from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job
from squinney.social.network import Network
from squinney.social.news.outdated import remove_outdated

BATCHES = 20


def deliver_posts(db: Db) -> dict[str, int]:
    """Process queued tasks until none is due.

    Atomic: each news entry by itself.
    After a crash: the task continues from its last position when its visibility time has expired.
    """
    return Network(db).deliver()


@operation(60)
def remove_outdated_entries(db: Db) -> dict[str, int]:
    """Remove entries of news and notices that can never be shown again, up to 20 batches of each.

    Atomic: each entry by itself.
    After a crash: the next run continues.
    """
    db = pinned(db)
    return {what: remove_outdated(db, what, batches=BATCHES) for what in ("news", "notices")}


JOBS = [
    Job("deliver-social-posts", every_seconds=1, run=deliver_posts, what="delivers posts to the news of their readers"),
    Job(
        "remove-outdated-entries",
        every_seconds=60,
        run=remove_outdated_entries,
        what="removes news that nobody may see any more",
    ),
]
