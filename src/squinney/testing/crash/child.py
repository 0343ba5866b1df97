"""The child process of a sweep: it runs the operation and dies at its k-th write."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Literal

from pymongo import _csot, common
from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from squinney.errors import Unavailable
from squinney.mongo.connect import client_for
from squinney.mongo.embedded.server import uri_of
from squinney.mongo.write_commands import is_write
from squinney.testing.async_operations import AsyncCaller
from squinney.testing.bulk_writes import statements_apart
from squinney.testing.calls import call
from squinney.testing.crash.proxy import Proxy
from squinney.testing.effects import Effects
from squinney.testing.lost_replies import LostReply, losing_replies
from squinney.testing.server_commands import described, writes_elsewhere

Way = Literal["before", "after", "reply-lost", "reconnected"]
WAYS: tuple[Way, ...] = ("before", "after", "reply-lost", "reconnected")

# Exit codes of the child
DIED = 77
COMPLETED = 78
FAILED = 79
NOT_IMPORTABLE = 80
OTHER_DATABASE = (
    "it wrote to the database {!r}, which is not emptied between crashes: use the one that it is called with"
)
OTHER_CLIENT = "it used another client, whose writes no crash can meet: use the database that it is called with"
SECONDS_WITHOUT_SERVER = 0.05
SECONDS_TO_GIVE_UP = 0.5
MAX_SECONDS = 120  # more than the parent waits


class Killer(CommandListener):
    """Counts the operation's writes and, at the k-th, ends the process or its connection, or loses the reply."""

    def __init__(
        self, way: Way, at_write: int, proxy: Proxy | None, report: Connection, *, database: str, name: str
    ) -> None:
        """`database` and `name` are those of the operation's database and client."""
        self.way = way
        self.at_write = at_write
        self.proxy = proxy
        self.report = report
        self.writes = 0
        self.request: int | None = None
        self.effects = Effects()
        self._lost = LostReply()
        self._database = database
        self._name = name
        self.astray = ""  # what it wrote where no crash and no check reaches it

    @property
    def reached(self) -> bool:
        """Whether the operation reached its k-th write."""
        return self.writes >= self.at_write

    def started(self, event: CommandStartedEvent) -> None:
        if not is_write(event.command_name, event.command):
            return
        if writes_elsewhere(event, self._database):
            self.astray = OTHER_DATABASE.format(event.database_name)
        self.effects.started(event)
        if self._lost.lose_again(event):
            return
        self.writes += 1
        if self.writes != self.at_write:
            return
        self.report.send(described(event.command_name, event.command))
        if self.way == "before":
            os._exit(DIED)
        self.request = event.request_id
        if self.way == "reconnected":
            self._lost.lose(event)
        if self.proxy:
            self.proxy.drop_reply_to = event.request_id

    def note_client(self, name: str) -> None:
        """Note which client has got a reply."""
        # guard: commands by another client than the swept operation's are noticed
        if name != self._name:
            self.astray = OTHER_CLIENT

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self.effects.succeeded(event)
        self._ended(event.request_id)

    def failed(self, event: CommandFailedEvent) -> None:
        self._ended(event.request_id)

    def _ended(self, request: int) -> None:
        if request != self.request:
            return
        if self.way == "after":
            os._exit(DIED)
        if self.way == "reconnected":
            return
        # The server stays unreachable, so the operation need not wait for it: shorten its deadline.
        _csot.DEADLINE.set(min(_csot.DEADLINE.get(), time.monotonic() + SECONDS_WITHOUT_SERVER))
        # A job that keeps retrying without its server is ended: that is a crash too.
        threading.Timer(SECONDS_TO_GIVE_UP, os._exit, [DIED]).start()


def run(
    report: Connection,
    socket: Path,
    folder: Path,
    database: str,
    app: str,
    act: bytes,
    state: bytes,
    way: Way,
    at_write: int,
) -> None:
    """Run the operation and die at its k-th write. Sends to `report` the command it died at, or the traceback.

    Of an operation that completes without changing any document it sends the collections that it wrote to.
    `folder` is for the socket of a proxy; the parent removes it, also after this process has died.
    The operation and the state are pickled, so that an operation that cannot be imported here is reported too.
    """
    signal.alarm(MAX_SECONDS)  # the parent may have died
    common.MIN_HEARTBEAT_INTERVAL = SECONDS_WITHOUT_SERVER  # by default each server selection would take half a second
    code = NOT_IMPORTABLE
    try:
        work, prepared = map(pickle.loads, (act, state))
        code = FAILED
        proxy = Proxy(socket, folder) if way == "reply-lost" else None
        killer = Killer(way, at_write, proxy, report, database=database, name=app)
        uri = proxy.uri if proxy else uri_of(socket)
        client = client_for(uri, event_listeners=[killer], appname=app)
        asynchronous = AsyncCaller(uri, event_listeners=[killer], appname=app)
        with losing_replies(killer.note_client), statements_apart():
            _run(killer, partial(call, work, client[database], prepared, asynchronous))
        code = FAILED if killer.astray else DIED if killer.reached else COMPLETED
        if killer.astray:
            report.send(killer.astray)
        if code == COMPLETED and not killer.effects.changed:
            for name in killer.effects.collections:
                report.send(name)
    except BaseException as error:
        report.send("".join(traceback.format_exception(type(error), error, _operation_traceback(error))))
    os._exit(code)


def _operation_traceback(error: BaseException) -> TracebackType | None:
    """Return the traceback without the frames of this package that come before the operation."""
    trace = error.__traceback__
    while trace and trace.tb_next and trace.tb_frame.f_globals["__name__"].startswith("squinney.testing."):
        trace = trace.tb_next
    return trace


def _run(killer: Killer, act: Callable[[], object]) -> None:
    try:
        act()
    except Exception as error:
        # Only an operation that has lost its server or a reply may fail, and only because of that.
        if not killer.reached or not isinstance(error, Unavailable | PyMongoError):
            raise
    finally:
        if killer.proxy:
            killer.proxy.close()
