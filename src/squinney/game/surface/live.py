"""Live play: send the events of a room to the sockets of the characters in it.

One thread per process follows the events and passes them to the event loop. Each socket has a short queue of its own: a
slow socket loses its queued events, receives a `gap` event instead, and delays no other socket. Clients only listen: a
socket is closed if its client sends anything but an occasional `ping`.
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
from squinney.http.access.live_connections import live_connections
from squinney.http.access.visitor import visitor_of
from squinney.mongo.schema import Db
from squinney.patterns.follow import Change, Feed, Reader
from squinney.roles import may_act_as
from squinney.system import Assembled

log = logging.getLogger(__name__)

MAX_SOCKETS = 2_000
MAX_PER_PERSON = 10
SEND_SECONDS = 10.0
MAX_MESSAGE_LENGTH = 16
MAX_MESSAGES = 30  # from one socket in `WINDOW_SECONDS`
WINDOW_SECONDS = 60.0
REFUSED, FULL, GOING = 1008, 1013, 1001


class Live:
    """Delivers events to the sockets of one process, and refreshes characters' copies of rooms."""

    def __init__(self, db: Db) -> None:
        self._feed = Feed(db, [EVENTS])
        self._copies = Copies(db)
        self._listeners = Listeners()
        self._sockets_of: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._reader: Reader | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the threads that follow events and rooms, or restart those that have ended."""
        with self._lock:
            self._copies.start()
            if self._reader is None or self._reader.closed:
                self._reader = self._feed.read(lambda change: change.kind == "insert", size=1_000)
                thread = threading.Thread(
                    target=self._run, args=(self._reader, loop), name="squinney-game", daemon=True
                )
                thread.start()

    def _run(self, reader: Reader, loop: asyncio.AbstractEventLoop) -> None:
        while not reader.closed and not loop.is_closed():
            first = reader.next(1.0)
            if first is not None:
                try:
                    loop.call_soon_threadsafe(self._deliver, [first, *reader.take_all()])
                except RuntimeError:  # the loop has ended
                    break
        reader.close()

    def _deliver(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.document is None:
                self._listeners.deliver_gap()
            else:
                self._listeners.deliver(change.document)

    def add(self, listener: Listener, person_id: str) -> bool:
        """Register a socket; return False if the process or the person has too many."""
        if len(self._listeners) >= MAX_SOCKETS or self._sockets_of[person_id] >= MAX_PER_PERSON:
            return False
        self._listeners.add(listener)
        self._sockets_of[person_id] += 1
        return True

    def correct_room(self, listener: Listener, before: str, now: str) -> None:
        """Move a listener from room `before` to room `now`, unless an event has moved it already."""
        if listener.location_id == before:
            self._listeners.move(listener, now)

    def remove(self, listener: Listener, person_id: str) -> None:
        """Unregister a socket that is closed."""
        self._listeners.remove(listener)
        self._sockets_of[person_id] -= 1
        if not self._sockets_of[person_id]:
            del self._sockets_of[person_id]

    def close(self) -> None:
        """End the threads."""
        self._feed.close()
        self._copies.close()


def live_of(app: Any) -> Live:
    """Return the process's `Live`, which the first call creates."""
    if not hasattr(app.state, "game_live"):
        app.state.game_live = Live(cast(Assembled, app.state.assembled).db)
    return cast(Live, app.state.game_live)


def close_live(app: Any) -> None:
    """End the threads, if any were started."""
    if hasattr(app.state, "game_live"):
        app.state.game_live.close()


async def listen(socket: WebSocket) -> None:
    """Serve `/game/ws?character=ID`: send the events of the room that the user's character is in."""
    person = visitor_of(socket).person
    character_id = socket.query_params.get("character", "")
    if person is None or not _is_same_origin(socket):
        await socket.close(REFUSED, "sign in first")
        return
    world = cast(World, socket.app.state.assembled.services["game"]["world"])
    live = live_of(socket.app)
    try:
        await run_in_threadpool(live.start, asyncio.get_running_loop())
        character = await run_in_threadpool(world.character, character_id)
    except SquinneyError as error:
        await socket.close(REFUSED, error.code)
        return
    # guard: only the character's owner can open a socket
    if character.get("owner") != person["_id"] and not may_act_as(person["role"], "admin"):
        await socket.close(REFUSED, "unknown-character")
        return
    listener = Listener(character_id, character["location"]["id"])
    if not live.add(listener, person["_id"]):
        await socket.close(FULL, "too many sockets")
        return
    try:
        # The character may have moved after the first read and before the listener was added.
        again = await run_in_threadpool(world.character, character_id)
        # guard: a socket whose character moves while it opens receives events of the new room
        live.correct_room(listener, character["location"]["id"], again["location"]["id"])
        await socket.accept()
        with live_connections(socket.app).until_session_ends(socket) as session:
            await _serve(socket, listener)
        if session.cancel_called:
            await _close(socket, "your session has ended")
    except SquinneyError as error:
        await socket.close(FULL, error.code)
    finally:
        live.remove(listener, person["_id"])


def _is_same_origin(socket: WebSocket) -> bool:
    """Return False for a page of another site; browsers send the origin of the page that opens a socket."""
    origin = socket.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == socket.headers.get("host")


async def _serve(socket: WebSocket, listener: Listener) -> None:
    async with anyio.create_task_group() as tasks:

        async def run_and_cancel_other(part: Callable[[], Awaitable[None]]) -> None:
            try:
                await part()
            except (TimeoutError, RuntimeError, OSError, WebSocketDisconnect):
                log.debug("a socket was closed")
            finally:
                tasks.cancel_scope.cancel()

        tasks.start_soon(run_and_cancel_other, partial(_send, socket, listener))
        await run_and_cancel_other(partial(_receive, socket))
    await _close(socket, "this socket only listens")


async def _close(socket: WebSocket, reason: str) -> None:
    if socket.application_state is WebSocketState.CONNECTED and socket.client_state is WebSocketState.CONNECTED:
        with anyio.move_on_after(SEND_SECONDS), suppress(RuntimeError, OSError, WebSocketDisconnect):
            await socket.close(REFUSED, reason)


async def _send(socket: WebSocket, listener: Listener) -> None:
    """Send events until one cannot be sent within `SEND_SECONDS`: such a client is asleep, and reconnects later."""
    await socket.send_json({"kind": "hello"})
    while True:
        event = await listener.next()
        with anyio.fail_after(SEND_SECONDS):
            await socket.send_json(event)


async def _receive(socket: WebSocket) -> None:
    """Return when the client disconnects, sends too many messages, or sends anything but a ping."""
    started, count = time.monotonic(), 0
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", GOING))
        if message.get("bytes") or len(message.get("text") or "") > MAX_MESSAGE_LENGTH or message.get("text") != "ping":
            return
        if time.monotonic() - started > WINDOW_SECONDS:
            started, count = time.monotonic(), 0
        count += 1
        # guard: a socket that sends too many messages is closed
        if count > MAX_MESSAGES:
            return
