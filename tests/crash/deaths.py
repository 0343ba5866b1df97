"""The child's side: an operation that dies at its k-th write."""

from __future__ import annotations

import os
import threading
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from pymongo import _csot, common
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from squinney.errors import Unavailable
from squinney.mongo.connect import client_for
from squinney.transactions import Mode
from tests.crash.case import cases
from tests.crash.proxy import Proxy, uri_of
from tests.plugins.writes import is_write

Way = Literal["before", "after", "reply-lost"]
WAYS: tuple[Way, ...] = ("before", "after", "reply-lost")

DIED = 77
COMPLETED = 78
BROKE = 79
SECONDS_WITHOUT_SERVER = 0.05
SECONDS_TO_GIVE_UP = 2.0


class Death(CommandListener):
    """Counts writes and strikes at the k-th."""

    def __init__(self, way: Way, at_write: int, proxy: Proxy | None) -> None:
        self.way = way
        self.at_write = at_write
        self.proxy = proxy
        self.writes = 0
        self.request: int | None = None

    @property
    def reached(self) -> bool:
        """Whether the operation got as far as its k-th write."""
        return self.writes >= self.at_write

    def started(self, event: CommandStartedEvent) -> None:
        if not is_write(event.command_name, event.command):
            return
        self.writes += 1
        if self.writes != self.at_write:
            return
        if self.way == "before":
            os._exit(DIED)
        self.request = event.request_id
        if self.proxy:
            self.proxy.lose = event.request_id

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._over(event.request_id)

    def failed(self, event: CommandFailedEvent) -> None:
        self._over(event.request_id)

    def _over(self, request: int) -> None:
        if request != self.request:
            return
        if self.way == "after":
            os._exit(DIED)
        # The server is gone for good: the operation's time may run out at once.
        _csot.DEADLINE.set(min(_csot.DEADLINE.get(), time.monotonic() + SECONDS_WITHOUT_SERVER))
        # A job that would go on asking for a server that is gone is ended: that too is a way to die.
        threading.Timer(SECONDS_TO_GIVE_UP, os._exit, [DIED]).start()


def run(
    report: Connection,
    socket: Path,
    database: str,
    app: str,
    case: str,
    mode: Mode,
    way: Way,
    at_write: int,
    state: Any,
) -> None:
    """Do the case's operation and die on the way; what went wrong otherwise is sent to `report`."""
    try:
        code = _run(socket, database, app, case, mode, way, at_write, state)
    except BaseException:
        report.send(traceback.format_exc())
        code = BROKE
    os._exit(code)


def _run(socket: Path, database: str, app: str, case: str, mode: Mode, way: Way, at_write: int, state: Any) -> int:
    proxy = Proxy(str(socket)) if way == "reply-lost" else None
    death = Death(way, at_write, proxy)
    uri = proxy.uri if proxy else uri_of(socket)
    common.MIN_HEARTBEAT_INTERVAL = SECONDS_WITHOUT_SERVER  # half a second would go by for every search for a server
    client = client_for(uri, event_listeners=[death], appname=app)
    try:
        cases()[case].act(client[database], mode, state)
    except Unavailable:
        if not death.reached:
            raise
    finally:
        if proxy:
            proxy.close()
    return DIED if death.reached else COMPLETED
