"""`PageViews`: each view of a page of this site becomes an event and a hit, and so shows in the live charts."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymongo.errors import PyMongoError

from squinney.analytics import BufferedHits, EventLog, VisitorIds
from squinney.errors import Invalid, SquinneyError
from squinney.mongo.schema import Document
from squinney.system import Assembled

log = logging.getLogger(__name__)

SITE = "squinney"
ROBOTS = f"{SITE} robots"  # the hits of robots are a site of their own, so that the charts show people
ROBOT_WORDS = ("bot", "crawl", "spider", "slurp")
FLUSH_SECONDS = 0.5
MAX_WAITING = 5_000
MAX_AT_ONCE = 1_000
MAX_PATH_LENGTH = 500
MAX_HEADER_LENGTH = 300


@dataclass(frozen=True, slots=True)
class PageView:
    """One view, as the web server saw it. Its `address` is never stored."""

    path: str
    at: datetime
    status: int
    size: int
    address: str
    user_agent: str = ""
    referer: str = ""
    campaign: str = ""  # the `utm_*` of the query
    is_reported: bool = False  # by the page's own script, which may say anything

    @property
    def is_robot(self) -> bool:
        """Whether the client says that it is a robot, or says nothing."""
        name = self.user_agent.lower()
        return not name or any(word in name for word in ROBOT_WORDS)


class PageViews:
    """Counts views of pages. `record` only appends to a list; a thread writes the list twice a second.

    A view of a page that exists is also a hit. The visitor of an event is a `VisitorIds` id, and the event is deleted
    after `keep_days`. `kill -9` loses the views of the last half second; none is ever counted twice. While MongoDB is
    away, 5,000 events wait and further ones are dropped. Call `close`.
    """

    def __init__(self, systems: Assembled, *, keep_days: float) -> None:
        analytics = systems.services["analytics"]
        self._events: EventLog = analytics["events"]
        self._visitors: VisitorIds = analytics["visitor_ids"]
        self._hits = BufferedHits(systems.db, flush_after_seconds=FLUSH_SECONDS)
        self._keep = timedelta(days=keep_days)
        self._waiting: deque[PageView] = deque(maxlen=MAX_WAITING)
        self._flushing = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="page-views", daemon=True)
        self._thread.start()

    def record(self, view: PageView) -> None:
        """Count a view with the next flush. It never waits and never fails."""
        self._waiting.append(view)

    def flush(self) -> None:
        """Write all views that are recorded so far.

        Atomic: each event, and the hits of up to 500 pages.
        After a crash: the events may be stored without their hits. Nothing is written twice.
        Raises: `Unavailable`, after which the events of this flush are lost.
        """
        with self._flushing:
            while views := [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_AT_ONCE))]:
                for view in views:
                    self._count(view)
                self._events.record_many([self._event(view) for view in views])
            self._hits.flush()

    def close(self) -> None:
        """Write what is waiting, and end the threads."""
        self._closing.set()
        self._thread.join()
        self._hits.close()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._closing.wait(FLUSH_SECONDS)
            try:
                self.flush()
            except (SquinneyError, PyMongoError):
                log.exception("storing page views failed; some are lost")

    def _count(self, view: PageView) -> None:
        # Anybody could create as many counters as they like.
        # guard: a page that does not exist has no counter
        if view.status >= 400 or view.is_reported:
            return
        try:
            self._hits.record(ROBOTS if view.is_robot else SITE, view.path[:MAX_PATH_LENGTH], view.at)
        except Invalid:  # a path that is no text
            log.debug("a view of a page with an invalid path was not counted")

    def _event(self, view: PageView) -> Document:
        event: dict[str, Any] = {
            "site": SITE,  # reports count people and robots apart
            "time": view.at,
            # guard: no address is stored
            "host": self._visitors.id_of(view.address, view.user_agent, view.at),
            "method": "GET",
            "path": view.path[:MAX_PATH_LENGTH],
            "status": view.status,
            "bytes": view.size,
            "user_agent": view.user_agent[:MAX_HEADER_LENGTH],
            "forget_at": view.at + self._keep,
        }
        # guard: an event of a robot says so
        if view.is_robot:
            event["robot"] = True
        if view.campaign:
            event["query"] = view.campaign[:MAX_HEADER_LENGTH]
        if view.referer:
            event["referer"] = view.referer[:MAX_HEADER_LENGTH]
        return event
