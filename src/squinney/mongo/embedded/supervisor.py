"""A thread that restarts the embedded MongoDB if it dies while a process uses it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from squinney.errors import NoServer

if TYPE_CHECKING:
    from squinney.mongo.embedded import Embedded

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 2.0


@contextmanager
def kept_alive(embedded: Embedded | None) -> Iterator[None]:
    """Restart the embedded server whenever it dies inside the `with`; do nothing without an embedded server."""
    if embedded is None:
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=_watch, args=(embedded, stop), name="squinney-supervisor", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _watch(embedded: Embedded, stop: threading.Event) -> None:
    while not stop.wait(LOOK_EVERY_SECONDS):
        try:
            if embedded.revive():
                log.warning("the embedded MongoDB had died and was restarted")
        except (NoServer, OSError) as error:
            log.error("the embedded MongoDB has died and cannot be restarted: %s", error)
