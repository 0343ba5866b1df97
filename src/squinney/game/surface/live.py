"""Live play: what happens in a room, sent to the sockets of those who are in it.

One thread per process follows the events and hands them to the event loop; each socket has a short queue of its own.
One that is too slow loses what waits for it and is told of a gap; it holds up nobody. A socket only listens: who sends
anything but a short `ping` now and then is shown out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from squinney.errors import SquinneyError
from squinney.game import Copies, World
from squinney.game.documents import EVENTS
from squinney.game.surface.listeners import Listener, Listeners
from squinney.http.visitor import visitor_of
from squinney.mongo.schema import Db
from squinney.patterns.follow import Change, Feed, Reader
from squinney.roles import may_act_as
from squinney.system import Assembled

log = logging.getLogger(__name__)

MOST_SOCKETS = 2_000
MOST_OF_ONE = 10
SEND_SECONDS = 10.0
LONGEST_MESSAGE = 16
MOST_MESSAGES = 30  # of a socket, in so many seconds
WINDOW_SECONDS = 60.0
REFUSED, FULL, GOING = 1008, 1013, 1001


class Live:
    """The sockets of one process."""

    def __init__(self, db: Db) -> None:
        self._feed = Feed(db, [EVENTS])
        self._copies = Copies(db)
        self._listeners = Listeners()
        self._of_one: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._reader: Reader | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to follow, or begin anew where following ended."""
        with self._lock:
            self._copies.start()
            if self._reader is None or self._reader.closed:
                self._reader = self._feed.read(lambda change: change.kind == "insert", size=1_000)
                hand_on = threading.Thread(
                    target=self._run, args=(self._reader, loop), name="squinney-game", daemon=True
                )
                hand_on.start()

    def _run(self, reader: Reader, loop: asyncio.AbstractEventLoop) -> None:
        while not reader.closed and not loop.is_closed():
            first = reader.next(1.0)
            if first is not None:
                try:
                    loop.call_soon_threadsafe(self._tell, [first, *reader.take_all()])
                except RuntimeError:  # the loop has ended
                    break
        reader.close()

    def _tell(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.document is None:
                self._listeners.gap()
            else:
                self._listeners.tell(change.document)

    def enter(self, listener: Listener, person_id: str) -> bool:
        """Whether there is room for one more socket, of this person too."""
        if len(self._listeners) >= MOST_SOCKETS or self._of_one[person_id] >= MOST_OF_ONE:
            return False
        self._listeners.add(listener)
        self._of_one[person_id] += 1
        return True

    def correct(self, listener: Listener, before: str, now: str) -> None:
        """It was found to be in that room, unless its character was heard to arrive somewhere meanwhile."""
        if listener.location_id == before:
            self._listeners.move(listener, now)

    def leave(self, listener: Listener, person_id: str) -> None:
        """A socket is closed."""
        self._listeners.remove(listener)
        self._of_one[person_id] -= 1
        if not self._of_one[person_id]:
            del self._of_one[person_id]

    def close(self) -> None:
        """End the threads."""
        self._feed.close()
        self._copies.close()


def live_of(app: Any) -> Live:
    """The process's own, made at the first call."""
    if not hasattr(app.state, "game_live"):
        app.state.game_live = Live(cast(Assembled, app.state.assembled).db)
    return cast(Live, app.state.game_live)


def close_live(app: Any) -> None:
    """End the threads, if there are any."""
    if hasattr(app.state, "game_live"):
        app.state.game_live.close()


async def listen(socket: WebSocket) -> None:
    """`/game/ws?character=ID`: the events of the room that one's own character is in."""
    person = visitor_of(socket).person
    character_id = socket.query_params.get("character", "")
    if person is None or not _is_from_here(socket):
        await socket.close(REFUSED, "sign in first")
        return
    world = cast(World, socket.app.state.assembled.services["game"]["world"])
    live = live_of(socket.app)
    try:
        await run_in_threadpool(live.start, asyncio.get_running_loop())
        found = await run_in_threadpool(world.character, character_id)
    except SquinneyError as error:
        await socket.close(REFUSED, error.code)
        return
    if found.get("owner") != person["_id"] and not may_act_as(person["role"], "admin"):
        await socket.close(REFUSED, "unknown-character")
        return
    listener = Listener(character_id, found["location"]["id"])
    if not live.enter(listener, person["_id"]):
        await socket.close(FULL, "too many sockets")
        return
    try:
        # Who walked on between the look and the entry was not heard to arrive.
        again = await run_in_threadpool(world.character, character_id)
        live.correct(listener, found["location"]["id"], again["location"]["id"])
        await socket.accept()
        await _serve(socket, listener)
    except SquinneyError as error:
        await socket.close(FULL, error.code)
    finally:
        live.leave(listener, person["_id"])


def _is_from_here(socket: WebSocket) -> bool:
    """A browser says which page opens a socket; a page of another site gets none."""
    origin = socket.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == socket.headers.get("host")


async def _serve(socket: WebSocket, listener: Listener) -> None:
    async with anyio.create_task_group() as tasks:

        async def until_its_end(part: Callable[[], Awaitable[None]]) -> None:
            try:
                await part()
            except (TimeoutError, RuntimeError, OSError, WebSocketDisconnect):
                log.debug("a socket is gone")
            finally:
                tasks.cancel_scope.cancel()

        tasks.start_soon(until_its_end, partial(_send, socket, listener))
        await until_its_end(partial(_receive, socket))
    if socket.application_state is WebSocketState.CONNECTED and socket.client_state is WebSocketState.CONNECTED:
        with anyio.move_on_after(SEND_SECONDS), suppress(RuntimeError, OSError, WebSocketDisconnect):
            await socket.close(REFUSED, "this socket only listens")


async def _send(socket: WebSocket, listener: Listener) -> None:
    """A client that takes nothing for so long is gone, or asleep: it comes again when it wakes."""
    await socket.send_json({"kind": "hello"})
    while True:
        event = await listener.next()
        with anyio.fail_after(SEND_SECONDS):
            await socket.send_json(event)


async def _receive(socket: WebSocket) -> None:
    """Ends where the client leaves, floods, or sends anything but a ping."""
    began, count = time.monotonic(), 0
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", GOING))
        if message.get("bytes") or len(message.get("text") or "") > LONGEST_MESSAGE or message.get("text") != "ping":
            return
        if time.monotonic() - began > WINDOW_SECONDS:
            began, count = time.monotonic(), 0
        count += 1
        if count > MOST_MESSAGES:
            return
