"""`Network`: people, circles, posts, and what each of them sees."""

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
SETTLE_SECONDS = 90  # longer than the server lets any transaction last


class Network(People, Circles, Posts, Lists):
    """People who put each other into circles and write to them.

    Every read shows what its reader may see at that moment: whoever is taken out of a circle, blocked or has left sees,
    or shows, nothing more from the moment at which that is acknowledged. News are complete when `deliver`, or the
    worker, has done what is queued; walls are at once.

    Every operation is one MongoDB transaction. Public posts of authors with more than `merge_above` followers are not
    delivered, but merged into news when those are read.
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
        """Work off what is queued until nothing is due; returns counts of tasks. Any number may do so at once.

        Atomic: each entry by itself; one that is there stays.
        After a crash: the task goes on where it was, when its time has run out.
        Raises: `Unavailable`.
        """
        done: Counter[str] = Counter()
        while counts := self._worker.work():
            done += counts
        return dict(done)
