"""Listeners that block a client's n-th write, or lose its reply."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pymongo.monitoring import CommandListener, CommandStartedEvent
from tests.processes import wait_until_gone

from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.mongo.write_commands import is_write
from squinney.testing.crash.proxy import Proxy, proxy_to
from squinney.testing.crash.sweep import abort_open_transactions


class Stall(CommandListener):
    """Blocks the n-th write, like a process that is suspended."""

    def __init__(self, at_write: int) -> None:
        self.asleep = threading.Event()
        self.awake = threading.Event()
        self._left = at_write

    def started(self, event: CommandStartedEvent) -> None:
        if not is_write(event.command_name, event.command):
            return
        self._left -= 1
        if self._left == 0:
            self.asleep.set()
            self.awake.wait(120)

    def succeeded(self, event: object) -> None:
        pass

    def failed(self, event: object) -> None:
        pass


class HoldWhen(Stall):
    """Blocks the first write before which a condition holds, as another client sees the data."""

    def __init__(self, condition: Callable[[], object]) -> None:
        super().__init__(0)
        self._condition = condition

    def started(self, event: CommandStartedEvent) -> None:
        if is_write(event.command_name, event.command) and not self.asleep.is_set() and self._condition():
            self.asleep.set()
            self.awake.wait(120)


class Meanwhile(Stall):
    """Calls a function just before the first command of a name, or the first write, is sent."""

    def __init__(self, act: Callable[[], object], command: str, collection: str) -> None:
        super().__init__(0)
        self._wanted = command, collection
        self._act = act

    def started(self, event: CommandStartedEvent) -> None:
        if self._is_wanted(event) and not self.asleep.is_set():
            self.asleep.set()
            self._act()

    def _is_wanted(self, event: CommandStartedEvent) -> bool:
        if not any(self._wanted):
            return is_write(event.command_name, event.command)
        return (event.command_name, event.command.get(event.command_name)) == self._wanted


class LoseReply(Stall):
    """Lets the n-th write happen, but loses its reply."""

    def __init__(self, at_write: int, proxy: Proxy) -> None:
        super().__init__(0)
        self._to_go = at_write
        self._proxy = proxy

    def started(self, event: CommandStartedEvent) -> None:
        if is_write(event.command_name, event.command):
            self._to_go -= 1
            if self._to_go == 0:
                self._proxy.drop_reply_to = event.request_id


@contextmanager
def stalled_client(mongod: Embedded, db: Db, at_write: int) -> Iterator[tuple[Db, Stall]]:
    """Yield the database of a client that blocks at its n-th write; all its writes have arrived when this ends."""
    with _client_with(mongod, db, Stall(at_write)) as found:
        yield found


@contextmanager
def held_client(mongod: Embedded, db: Db, condition: Callable[[], object]) -> Iterator[tuple[Db, Stall]]:
    """Yield the database of a client that blocks before the first write at which the condition holds."""
    with _client_with(mongod, db, HoldWhen(condition)) as found:
        yield found


@contextmanager
def meanwhile(
    mongod: Embedded, db: Db, act: Callable[[], object], command: str = "", collection: str = ""
) -> Iterator[Db]:
    """Yield the database of a client that calls `act` just before its first command of a name, or its first write."""
    with _client_with(mongod, db, Meanwhile(act, command, collection)) as (found, stall):
        yield found
    assert stall.asleep.is_set(), f"no {command or 'write'} on {collection} was sent"


@contextmanager
def _client_with(mongod: Embedded, db: Db, stall: Stall) -> Iterator[tuple[Db, Stall]]:
    app = f"stalled-{secrets.token_hex(6)}"
    with client_for(mongod.uri, event_listeners=[stall], appname=app) as client:
        try:
            yield client[db.name], stall
        finally:
            stall.awake.set()
    wait_until_gone(db.client, app)


@contextmanager
def client_losing_reply(mongod: Embedded, db: Db, at_write: int) -> Iterator[Db]:
    """Yield the database of a client that gets no reply to its n-th write, nor to any later one."""
    app = f"losing-{secrets.token_hex(6)}"
    with (
        proxy_to(mongod.socket) as proxy,
        client_for(proxy.uri, event_listeners=[LoseReply(at_write, proxy)], appname=app) as client,
    ):
        yield client[db.name]
    abort_open_transactions(db, app)
