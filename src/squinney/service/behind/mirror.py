"""`Behind`: makes a page once more, in a second application whose commands are recorded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from pymongo.monitoring import CommandListener
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope

from squinney.errors import Invalid, TooManyRequests, Unavailable
from squinney.http.access.visitor import Visitor
from squinney.mongo.schema import Db
from squinney.patterns.bounded import Bounded
from squinney.service.behind.recording import CommandRecorder, RequestRecording, Sent, explain, recording
from squinney.service.behind.shown import PageText, ShownDocument, shown_documents

NOT_PAGES = ("/api/", "/static/", "/behind", "/prove/events", "/healthz", "/readyz", "/metrics")
MAX_ADDRESS_LENGTH = 2_000
MAX_SECONDS = 15.0
MAX_WAIT_SECONDS = 5.0
MAX_BYTES = 4 << 20
MAX_ACTIONS = 200
PASSED_HEADERS = {b"content-type", b"content-length", b"location", b"set-cookie", b"cache-control", b"retry-after"}
Make = Callable[[CommandListener], tuple[ASGIApp, Callable[[], object]]]


@dataclass(frozen=True)
class SentForm:
    """A form that was sent while the view behind the pages was open: its commands, and where it led."""

    what: str
    leads_to: str
    sent: Sequence[Sent]


@dataclass(frozen=True)
class MadePage:
    """How a page was made: its status, the commands, the documents that it shows, and the action that led to it."""

    path: str
    status: int
    sent: Sequence[Sent]
    documents: Sequence[ShownDocument]
    action: SentForm | None = None


@dataclass
class _Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    messages: list[Message] = field(default_factory=list)


class Behind:
    """Makes recorded pages, one at a time.

    `make` returns an application whose client has the given listener, and what closes both.
    """

    def __init__(self, make: Make, db: Db, *, for_everybody: bool) -> None:
        self._make = make
        self._db = db
        self.for_everybody = for_everybody
        self._app: ASGIApp | None = None
        self._close: Callable[[], object] = lambda: None
        self._making = threading.Lock()
        self._turn = asyncio.Lock()
        self._actions = Bounded[str, SentForm](MAX_ACTIONS)  # by visitor, the last one

    def allows(self, visitor: Visitor) -> bool:
        """Return whether this visitor may look behind pages."""
        # guard: without demo data only admins look behind a page
        return self.for_everybody or visitor.role == "admin"

    def can_show(self, page: str) -> bool:
        """Return whether this address may be a page; whether it is one is known once it is made."""
        path = page.partition("?")[0]
        return path.startswith("/") and not path.startswith(("//", *NOT_PAGES)) and len(page) <= MAX_ADDRESS_LENGTH

    async def look(self, scope: Scope, visitor: Visitor, page: str) -> MadePage:
        """Make the page at this address once more for the same visitor, and return how it was made.

        Raises: `Invalid` if it is no page, or one that this visitor may not see; `TooManyRequests` if too many others
        are looking.
        """
        path, _, query = page.partition("?")
        if not self.can_show(page):
            raise Invalid("only pages of this site can be looked behind", field="page")
        wanted = {**_copied(scope), "method": "GET", "path": unquote(path), "raw_path": path.encode()}
        answer, sent = await self._recorded({**wanted, "query_string": query.encode()}, _no_body)
        # guard: behind a refused page nothing is shown
        if answer.status >= HTTPStatus.BAD_REQUEST:  # its commands would tell a hidden page from a missing one
            raise Invalid("there is no such page for you", field="page")
        if "text/html" not in answer.headers.get("content-type", ""):
            raise Invalid("only pages of this site can be looked behind", field="page")
        text = PageText(answer.body.decode("utf-8", "replace"))
        await run_in_threadpool(explain, self._db, sent)
        action = self._actions.get(_key(visitor))
        if action and action.leads_to.partition("?")[0] != path:
            action = None
        return MadePage(page, answer.status, sent, shown_documents(sent, text), action)

    async def act(self, scope: Scope, receive: Receive, visitor: Visitor) -> Sequence[Message] | None:
        """Send a form with recording on, and return the response; None if another visitor's turn is not over."""
        if self._turn.locked() or self._app is None:
            return None
        answer, sent = await self._recorded(_copied(scope), receive)
        if 300 <= answer.status < 400:
            steps = [command for command in sent if command.in_transaction]
            self._actions[_key(visitor)] = SentForm(str(scope["path"]), answer.headers.get("location", ""), steps)
        return [_without_own_headers(message) for message in answer.messages]

    async def _recorded(self, scope: Scope, receive: Receive) -> tuple[_Answer, list[Sent]]:
        app = await run_in_threadpool(self._mirror)
        try:
            await asyncio.wait_for(self._turn.acquire(), MAX_WAIT_SECONDS)
        except TimeoutError:
            raise TooManyRequests("others are looking behind pages; try again in a few seconds") from None
        answer, recorded = _Answer(), RequestRecording()
        before = recording.set(recorded)
        try:
            async with asyncio.timeout(MAX_SECONDS):
                await app(scope, receive, _collect(answer))
        except TimeoutError:
            raise Unavailable("the page took too long") from None
        finally:
            recording.reset(before)
            self._turn.release()
        return answer, recorded.sent

    def _mirror(self) -> ASGIApp:
        with self._making:
            if self._app is None:
                self._app, self._close = self._make(CommandRecorder())
            return self._app

    def has_no_actions(self) -> bool:
        """Return whether no form was recorded."""
        return not self._actions

    def close(self) -> None:
        """Close the second application."""
        with self._making:
            self._close()


def _without_own_headers(message: Message) -> Message:
    """Leave the headers to the first application that it adds to each response."""
    headers = [(name, value) for name, value in message.get("headers", ()) if name.lower() in PASSED_HEADERS]
    return {**message, "headers": headers} if "headers" in message else message


def _copied(scope: Scope) -> dict[str, Any]:
    """Return the scope of the same caller for another application."""
    kept = ("type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string", "headers")
    copied: MutableMapping[str, Any] = {name: scope[name] for name in (*kept, "client", "server") if name in scope}
    headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]  # the page is read here
    return {**copied, "headers": headers, "root_path": "", "state": {}}


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def _collect(answer: _Answer) -> Callable[[Message], Any]:
    async def send(message: Message) -> None:
        answer.messages.append(message)
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]
            }
        elif len(answer.body) < MAX_BYTES:
            answer.body += message.get("body", b"")

    return send


def _key(visitor: Visitor) -> str:
    return sha256(visitor.token.encode()).hexdigest()
