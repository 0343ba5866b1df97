"""`Network`: members, circles, posts, and the lists that each member reads."""

from __future__ import annotations

from collections import Counter

from squinney.clock import Clock, utcnow
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.queue import Queue
from squinney.social import queries
from squinney.social.network.circles import Circles
from squinney.social.network.lists import Lists
from squinney.social.network.people import People
from squinney.social.network.posts import Posts
from squinney.social.tasks.worker import Worker

MERGE_ABOVE = 10_000
SETTLE_SECONDS = 90  # longer than the server's limit for a transaction


class Network(People, Circles, Posts, Lists):
    """A social network: members put each other into circles and write posts for them.

    Every read shows only what its reader may see at that moment. When an uncircle, a block or a leave is acknowledged,
    the posts that it hides disappear from all lists at once. Walls are always complete. News are complete after
    `deliver`, or the worker, has processed the queue.

    Every operation is one MongoDB transaction. Public posts by authors with more than `merge_above` followers are not
    delivered, but merged into the news on reading.
    """

    def __init__(
        self,
        db: Db,
        *,
        clock: Clock = utcnow,
        merge_above: int = MERGE_ABOVE,
        settle_seconds: float = SETTLE_SECONDS,
        visibility_seconds: float = 60,
    ) -> None:
        self._db = pinned(db)
        self._clock = clock
        self._queue = Queue(db, queries.QUEUE, visibility_seconds=visibility_seconds)
        self._worker = Worker(self._db, self._queue, merge_above=merge_above, settle_seconds=settle_seconds)

    def deliver(self) -> dict[str, int]:
        """Process queued tasks until none is due, and return counts of tasks by outcome. Calls may run concurrently.

        Atomic: each news entry by itself; an entry that exists is left as it is.
        After a crash: the task continues from its last position when its visibility time has expired.
        Raises: `Unavailable`.
        """
        done: Counter[str] = Counter()
        while counts := self._worker.work():
            done += counts
        return dict(done)
