"""`FollowerThread`: runs a follower in a thread, which can be started again after it has ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from squinney.patterns.follow.follower import Change, Follower

log = logging.getLogger(__name__)

CLOSE_SECONDS = 5


class FollowerThread:
    """One thread that passes changes to `read`. If an error ends it, the next `start` starts another one.

    `lock`, which the owner may use too, is held while the thread starts and while `ended` is called, so that the owner
    never relies on a thread that has ended. `stop` ends the thread for good.
    """

    def __init__(
        self,
        name: str,
        new_follower: Callable[[], Follower],
        read: Callable[[Change], object],
        *,
        settle: Callable[[], object] = lambda: None,
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        self._name = name
        self._new_follower = new_follower
        self._read = read
        self._settle = settle
        self._ended = ended
        self._thread: threading.Thread | None = None
        self.lock = threading.RLock()
        self.stop = threading.Event()

    @property
    def is_running(self) -> bool:
        """Whether the thread is there: then no change is missed."""
        return self._thread is not None

    def start(self, began: Callable[[], object] = lambda: None) -> None:
        """Start the thread unless it runs; no change after this call is missed.

        `began` is called after the follower has its first position, and before the thread starts.

        Raises: `Unavailable`.
        """
        with self.lock:
            if self._thread is None and not self.stop.is_set():
                follower = self._new_follower()
                follower.begin()
                began()
                self._thread = threading.Thread(target=self._run, args=(follower,), name=self._name, daemon=True)
                self._thread.start()

    def _run(self, follower: Follower) -> None:
        try:
            follower.follow(self._read, stop=self.stop, settle=self._settle)
        except Exception:
            log.exception("%s: following has ended; the next use starts it again", self._name)
        with self.lock:
            self._thread = None
            self._ended()

    def close(self) -> None:
        """End the thread for good."""
        self.stop.set()
        if (thread := self._thread) is not None:
            thread.join(timeout=CLOSE_SECONDS)
