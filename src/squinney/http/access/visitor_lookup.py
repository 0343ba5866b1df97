"""Who the visitors of the pages are: people of our own sessions, of the host application, or nobody."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from squinney.http.access.visitor import SignedIn, Visitor, visitor_of
from squinney.http.rooted import host_connection
from squinney.roles import ROLES

log = logging.getLogger(__name__)


class Visitors(Protocol):
    """Tells who a visitor is. `sign_in` is the page to sign in on, and empty if nobody can."""

    sign_in: str
    has_accounts: bool

    async def load(self, connection: HTTPConnection, visitor: Visitor) -> None:
        """Set the visitor's person, if there is one."""

    async def roles(self, connections: Sequence[HTTPConnection]) -> list[str | None]:
        """Return the present role of each connection's person; None for one who may not stay."""


class SessionVisitors:
    """People who signed in on our own pages: a cookie has the token of their session."""

    sign_in = "/sign-in"
    has_accounts = True

    def __init__(self, sessions: Any, *, may_try: Callable[[HTTPConnection], bool] = lambda _: False) -> None:
        self._sessions = sessions
        self._may_try = may_try

    async def load(self, connection: HTTPConnection, visitor: Visitor) -> None:
        """Set the person of the session."""
        if not visitor.session_token:
            return
        visitor.person = await run_in_threadpool(self._sessions.person, visitor.session_token)
        # guard: a session that tries the demo ends where trying it is impossible
        if visitor.person and visitor.person.get("tried") and not await run_in_threadpool(self._may_try, connection):
            visitor.person = None
        if visitor.person is None:  # the session has expired or was ended
            visitor.sign_out()

    async def roles(self, connections: Sequence[HTTPConnection]) -> list[str | None]:
        """Look up the sessions of all connections together."""
        tokens = [visitor_of(connection).session_token for connection in connections]
        find: Callable[[Iterable[str]], Mapping[str, Any]] = self._sessions.people
        people = await run_in_threadpool(find, set(tokens))
        return [people[token]["role"] if token in people else None for token in tokens]


class NoVisitors:
    """Nobody can sign in: only what is public can be seen."""

    sign_in = ""
    has_accounts = False

    async def load(self, connection: HTTPConnection, visitor: Visitor) -> None:
        """Leave the visitor anonymous."""
        if visitor.session_token:
            visitor.sign_out()

    async def roles(self, connections: Sequence[HTTPConnection]) -> list[str | None]:
        """Let no connection of a person stay."""
        return [None for _ in connections]


Authenticate = Callable[[HTTPConnection], Any]
PERSON = "authenticate must return None or a mapping with id, name and role"


class HostVisitors:
    """The people of the application that this site is mounted in, as its `authenticate` tells."""

    has_accounts = False

    def __init__(self, authenticate: Authenticate, sign_in: str = "") -> None:
        self._authenticate = authenticate
        self.sign_in = sign_in

    async def load(self, connection: HTTPConnection, visitor: Visitor) -> None:
        """Ask the host who sends the request."""
        if visitor.session_token:
            visitor.sign_out()
        visitor.person = await self._person(connection)

    async def roles(self, connections: Sequence[HTTPConnection]) -> list[str | None]:
        """Ask the host again who each connection is; one of whom it says nothing may not stay."""
        roles: list[str | None] = []
        for connection in connections:
            try:
                person = await self._person(connection)
            except Exception:
                log.exception("authenticate failed for a live connection, which ends")
                person = None
            roles.append(person["role"] if person else None)
        return roles

    async def _person(self, connection: HTTPConnection) -> SignedIn | None:
        asked = host_connection(connection)
        if inspect.iscoroutinefunction(self._authenticate):
            return _checked(await self._authenticate(asked))
        return _checked(await run_in_threadpool(self._authenticate, asked))


def _checked(person: Any) -> SignedIn | None:
    """Return what the host says of a person, or refuse it: a role that we do not know must not become one."""
    if person is None:
        return None
    given = person if isinstance(person, Mapping) else {}
    person_id, name, role = (given.get(field) for field in ("id", "name", "role"))
    # guard: a person of the host has a role that we know
    if not person_id or not isinstance(name, str) or role not in ROLES[1:]:
        raise TypeError(f"{PERSON}, one of {', '.join(ROLES[1:])}; it returned {given or type(person).__name__}")
    return {"_id": str(person_id), "login": str(person_id), "name": name, "role": str(role)}


def visitors_of(app: Any) -> Visitors:
    """Return who tells the visitors of an application; nobody in one that is not ours."""
    return cast(Visitors, getattr(app.state, "visitors", None) or NoVisitors())
