"""FastAPI dependencies of routes, and small helpers that read a request's headers and address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar, cast

from fastapi import Depends, Header, Request
from starlette.types import Scope

from squinney.patterns.addresses import network_of
from squinney.system import Assembled
from squinney.transactions import Key

T = TypeVar("T")


class Lookup(Generic[T]):
    """A dependency that returns something from the systems that this process serves.

    `OneThreadRoute` calls `find` directly. Other routes resolve it through FastAPI; `__call__` is `async` because
    FastAPI runs synchronous dependencies in another thread.
    """

    def __init__(self, find: Callable[[Assembled], T]) -> None:
        self.find = find

    async def __call__(self, request: Request) -> T:
        return self.find(cast(Assembled, request.app.state.assembled))


assembled = Lookup(lambda systems: systems)


def processes_of(request: Request) -> Callable[..., Any] | None:
    """Return the pool that runs functions in other processes (`service/processes.py`); None if there is no pool."""
    return cast("Callable[..., Any] | None", request.app.state.processes)


def service(system: str, name: str, kind: type[T]) -> Lookup[T]:
    """Return a dependency on one service of a system; services are built once per process."""
    return Lookup(lambda systems: cast(T, systems.services[system][name]))


def services(system: str, kind: type[T]) -> Lookup[T]:
    """Return a dependency on all services of a system, as an instance of `kind` with a field per service."""
    return Lookup(lambda systems: kind(**systems.services[system]))


_KEY = Header(
    alias="Idempotency-Key",
    min_length=1,
    max_length=200,
    pattern=r"^[\x21-\x7e]+$",
    description="A request repeated with the same key takes effect once",
    examples=["5f0c6f0e-0b0e-4c55-9d6c-0a3e6a1b7f11"],
)


async def _idempotency_key(request: Request, given: Annotated[str | None, _KEY] = None) -> Key | None:
    """Return the request's idempotency key, scoped by its API key: two callers may use the same key."""
    api_key = getattr(request.state, "key", None)
    return Key(given, f"api:{api_key['_id']}" if api_key else "api") if given else None


IdempotencyKey = Annotated[Key | None, Depends(_idempotency_key)]
RequiredIdempotencyKey = Annotated[str, _KEY]


def header(scope: Scope, name: bytes) -> str:
    """Return the value of a header, or an empty string. `name` must be in lower case."""
    for given, value in scope["headers"]:
        if given == name:
            return str(value.decode("latin-1"))
    return ""


def client_address(scope: Scope) -> str:
    """Return the caller's address; behind trusted proxies, the address that they forwarded."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def client_network(scope: Scope) -> str:
    """Return what a caller is counted by: the address, or the network that one caller of IPv6 usually owns."""
    return network_of(client_address(scope))
