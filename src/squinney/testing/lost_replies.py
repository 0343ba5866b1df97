"""Lose the server's reply to a write: the write happened, its caller gets a network error, and the connection works.

The driver sends most writes again by itself, and the server does not repeat them. So the reply to the driver's own
second attempt is lost too. If the operation has a time limit, the driver would try until then: the limit is over at
once. What the operation does after the driver's error goes through.
"""

from __future__ import annotations

import importlib
import inspect
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from pymongo import _csot
from pymongo.monitoring import CommandStartedEvent

from squinney.mongo import deadlines

# The modules of the driver that receive replies; which of them exist depends on its version.
RECEIVERS = (
    ("pymongo.synchronous.pool", "receive_message"),
    ("pymongo.synchronous.network", "receive_message"),
    ("pymongo.asynchronous.pool", "async_receive_message"),
    ("pymongo.asynchronous.network", "async_receive_message"),
)
_lost: set[int] = set()  # the requests whose replies are lost
_lock = threading.Lock()


class LostReply:
    """Loses the reply to one write of a client, and to the driver's own attempts to send it again."""

    def __init__(self) -> None:
        self._statement: Any = None

    def lose(self, event: CommandStartedEvent) -> None:
        """Lose the reply to the command that is about to be sent."""
        self._statement = _statement(event.command_name, event.command)
        _lost.add(event.request_id)

    def lose_again(self, event: CommandStartedEvent) -> bool:
        """Return whether the driver sends the same write again by itself; if so, lose this reply too.

        The driver does so once. A third attempt, such as that of `with_transaction` to commit, goes through.
        """
        if self._statement is None or _statement(event.command_name, event.command) != self._statement:
            return False
        self._statement = None
        # guard: the reply to the driver's own second attempt is lost too
        _lost.add(event.request_id)
        return True


def _statement(name: str, command: Mapping[str, Any]) -> Any:
    """Identify a write that the server does not repeat when it is sent again; None for any other command."""
    if "txnNumber" not in command or (command.get("autocommit") is False and name != "commitTransaction"):
        return None
    return name, bytes(command["lsid"]["id"]), command["txnNumber"]


@contextmanager
def losing_replies(on_reply: Callable[[str], object]) -> Iterator[None]:
    """In the `with` block, replies can be lost by `LostReply`.

    `on_reply` is called, in the thread that gets a reply, with the name of the client that gets it.
    """
    with ExitStack() as patched:
        for name, function in RECEIVERS:
            module = _module(name)
            if receive := getattr(module, function, None):
                wrapped = _unless_lost_async if inspect.iscoroutinefunction(receive) else _unless_lost
                patched.enter_context(patch.object(module, function, wrapped(receive, on_reply)))
        yield


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _unless_lost(receive: Callable[..., Any], on_reply: Callable[[str], object]) -> Callable[..., Any]:
    def receive_unless_lost(conn: Any, request_id: int | None, *args: Any) -> Any:
        reply = receive(conn, request_id, *args)  # the server sends it after the write has happened
        on_reply(_client_of(conn))
        _lose(request_id)
        return reply

    return receive_unless_lost


def _unless_lost_async(receive: Callable[..., Any], on_reply: Callable[[str], object]) -> Callable[..., Any]:
    async def receive_unless_lost(conn: Any, request_id: int | None, *args: Any) -> Any:
        reply = await receive(conn, request_id, *args)
        on_reply(_client_of(conn))
        _lose(request_id)
        return reply

    return receive_unless_lost


def _client_of(conn: Any) -> str:
    """Return the `appname` of the client that a connection belongs to."""
    return str(conn.opts.metadata.get("application", {}).get("name", ""))


def _lose(request_id: int | None) -> None:
    """Raise what the driver's socket would raise, if the reply to this request is lost."""
    with _lock:
        lost = request_id in _lost
        _lost.discard(request_id or 0)
    if lost:
        _end_time_limit()
        raise TimeoutError("timed out")  # the driver turns it into NetworkTimeout, a kind of AutoReconnect


def _end_time_limit() -> None:
    """Let the time limit of the current operation be over, if it has one: until then the driver would try again."""
    for limit in (_csot.DEADLINE, deadlines._ends_at):
        if limit.get() < math.inf:
            limit.set(min(limit.get(), time.monotonic()))
