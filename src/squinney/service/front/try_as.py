"""Trying the demo as somebody of the town, with one click. Only where nobody else can click: on one's own machine."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response

from squinney.clock import utcnow
from squinney.errors import Invalid
from squinney.http.access.callers import PageRoute
from squinney.http.access.visitor import visitor_of
from squinney.http.dependencies import client_address, service
from squinney.http.pages import redirect, return_path
from squinney.identity import Person, Sessions
from squinney.service.town.loading import is_loaded
from squinney.service.town.people import people
from squinney.system import Assembled

ROLES = {"ada": "member", "june": "editor", "lena": "admin"}  # by the short name of a person of the town
NAMES = ("localhost", "127.0.0.1")
FORWARDED = ("forwarded", "via", "x-real-ip")
KNOWN_SECONDS = 5.0


@dataclass
class TryAs:
    """Whether visitors may try the demo as somebody, which they may only if nobody else can.

    A page of another site that resolves its own name to 127.0.0.1 (DNS rebinding) sends that name as the host, and a
    proxy on this machine adds a header, or is a trusted one.
    """

    systems: Assembled
    host: str
    is_embedded: bool
    enabled: bool = True
    trusted_proxies: Sequence[str] = ()
    _loaded_until: float = field(default=0.0, repr=False)

    def exists(self, connection: HTTPConnection) -> bool:
        """Return whether this connection may try the demo as somebody."""
        # guard: nobody is tried if the setting is off
        if not self.enabled:
            return False
        # guard: nobody is tried on a server that others use too
        if not self.is_embedded:
            return False
        # guard: nobody is tried where other machines can connect
        if not _is_loopback(self.host):
            return False
        # guard: nobody is tried where a proxy is trusted
        if self.trusted_proxies:
            return False
        # guard: nobody is tried under a name that another site may have
        if _name_in(connection.headers.get("host", "")) not in NAMES:
            return False
        # guard: nobody is tried through a proxy
        if any(name in FORWARDED or name.startswith("x-forwarded-") for name in connection.headers):
            return False
        # guard: nobody is tried from another machine
        if not _is_loopback(client_address(connection.scope)):
            return False
        # guard: nobody is tried without the demo data
        return self._is_demo_loaded()

    def choices(self, connection: HTTPConnection) -> list[tuple[str, str]]:
        """Return whom this connection may try, as short names and labels."""
        if not self.exists(connection):
            return []
        return [(name, f"{people()[name].name.partition(' ')[0]}, {role}") for name, role in ROLES.items()]

    def _is_demo_loaded(self) -> bool:
        now = time.monotonic()
        if now >= self._loaded_until and is_loaded(self.systems):
            self._loaded_until = now + KNOWN_SECONDS
        return now < self._loaded_until


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _name_in(host: str) -> str:
    """Return the name in a `Host` header without its port."""
    name, _, port = host.partition(":")
    return name.lower() if not port or port.isdecimal() else ""


def trial_person(name: str) -> Person:
    """Return somebody of the town as a person who tries the demo; nothing of it is stored but the session."""
    if name not in ROLES:
        raise Invalid(f"who must be one of {', '.join(ROLES)}", field="who")
    resident = people()[name]
    return {
        "_id": resident.id,
        "login": name,
        "name": resident.name,
        "role": ROLES[name],
        "created_at": utcnow() - timedelta(days=365),
        "tried": True,
    }


def neighbours() -> dict[str, str]:
    """Return the names of the people of the town by their ids."""
    return {neighbour.id: neighbour.name for neighbour in people().values()}


class TryRoute(PageRoute):
    """A page that does not exist unless `TryAs` exists for the request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a page, which answers 404 first."""
        handle = super().get_route_handler()

        async def handle_if_it_exists(request: Request) -> Response:
            trial: TryAs | None = getattr(request.app.state, "try_as", None)
            if trial is None or not await run_in_threadpool(trial.exists, request):
                raise HTTPException(404)
            return await handle(request)

        return handle_if_it_exists


router = APIRouter(include_in_schema=False, route_class=TryRoute)

SessionsDep = Annotated[Sessions, Depends(service("identity", "sessions", Sessions))]


@router.post("/try-as")
def try_as(request: Request, sessions: SessionsDep, who: Annotated[str, Form(max_length=20)]) -> Response:
    """Sign in as somebody of the town, and go on where the visitor was."""
    visitor, person = visitor_of(request), trial_person(who)
    if visitor.session_token:
        sessions.end(visitor.session_token)
    visitor.sign_in(person, sessions.start_trial(person))
    return redirect(request, return_path(request), f"You are trying the site as {person['name']}, {person['role']}.")
