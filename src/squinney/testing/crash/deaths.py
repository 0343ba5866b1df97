"""The child's side: an operation that dies at its k-th write."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from pymongo import _csot, common
from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from squinney.errors import Unavailable
from squinney.mongo.connect import client_for
from squinney.testing.calls import call
from squinney.testing.commands import described, is_write
from squinney.testing.crash.proxy import Proxy, uri_of

Way = Literal["before", "after", "reply-lost"]
WAYS: tuple[Way, ...] = ("before", "after", "reply-lost")

DIED = 77
COMPLETED = 78
BROKE = 79
NOT_FOUND = 80
SECONDS_WITHOUT_SERVER = 0.05
SECONDS_TO_GIVE_UP = 0.5
MOST_SECONDS = 120  # more than anybody waits for it


class Death(CommandListener):
    """Counts writes and strikes at the k-th."""

    def __init__(self, way: Way, at_write: int, proxy: Proxy | None, report: Connection) -> None:
        self.way = way
        self.at_write = at_write
        self.proxy = proxy
        self.report = report
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
        self.report.send(described(event.command_name, event.command))
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
    act: bytes,
    state: bytes,
    way: Way,
    at_write: int,
) -> None:
    """Do the operation and die on the way; tells `report` at which command, or what went wrong otherwise.

    The operation and what was prepared come pickled, so that one which cannot be imported here is told too.
    """
    signal.alarm(MOST_SECONDS)  # whoever started it may be gone
    code = NOT_FOUND
    try:
        work, prepared = (pickle.loads(one) for one in (act, state))  # noqa: S301 (the parent's own)
        code = BROKE
        code = _run(report, socket, database, app, work, way, at_write, prepared)
    except BaseException as error:
        report.send("".join(traceback.format_exception(type(error), error, _its_own(error))))
    os._exit(code)


def _its_own(error: BaseException) -> TracebackType | None:
    """The traceback from where the operation begins."""
    trace = error.__traceback__
    while trace and trace.tb_next and trace.tb_frame.f_globals["__name__"].startswith("squinney.testing."):
        trace = trace.tb_next
    return trace


def _run(
    report: Connection,
    socket: Path,
    database: str,
    app: str,
    act: Callable[..., object],
    way: Way,
    at_write: int,
    state: Any,
) -> int:
    proxy = Proxy(str(socket)) if way == "reply-lost" else None
    death = Death(way, at_write, proxy, report)
    uri = proxy.uri if proxy else uri_of(socket)
    common.MIN_HEARTBEAT_INTERVAL = SECONDS_WITHOUT_SERVER  # half a second would go by for every search for a server
    client = client_for(uri, event_listeners=[death], appname=app)
    try:
        call(act, client[database], state)
    except Exception as error:
        # Without its server the operation fails; with it, only as it may: by a refusal.
        if not death.reached or not isinstance(error, Unavailable | PyMongoError):
            raise
    finally:
        if proxy:
            proxy.close()
    return DIED if death.reached else COMPLETED
