"""What routes, and the layers around them, ask of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar, cast

from fastapi import Depends, Header, Request
from starlette.types import Scope

from squinney.system import Assembled
from squinney.transactions import Key

T = TypeVar("T")


class Lookup(Generic[T]):
    """A dependency that looks something up among the systems this process serves. Our routes call `find` themselves.

    It is `async` for those who ask by the framework, which would send a plain one to another thread.
    """

    def __init__(self, find: Callable[[Assembled], T]) -> None:
        self.find = find

    async def __call__(self, request: Request) -> T:
        """As the framework asks."""
        return self.find(cast(Assembled, request.app.state.assembled))


assembled = Lookup(lambda systems: systems)


def processes_of(request: Request) -> Callable[..., Any] | None:
    """What calls a function where its work holds nobody up (`service/processes.py`); None where it is done here."""
    return cast("Callable[..., Any] | None", request.app.state.processes)


def service(system: str, name: str, kind: type[T]) -> Lookup[T]:
    """A dependency that gives a system's service, which is built once per process."""
    return Lookup(lambda systems: cast(T, systems.services[system][name]))


def services(system: str, kind: type[T]) -> Lookup[T]:
    """A dependency that gives all services of a system, as the fields of a class by their names."""
    return Lookup(lambda systems: kind(**systems.services[system]))


_KEY = Header(
    alias="Idempotency-Key",
    min_length=1,
    max_length=200,
    pattern=r"^[\x21-\x7e]+$",
    description="Repeat a request with the same key and it happens once",
    examples=["5f0c6f0e-0b0e-4c55-9d6c-0a3e6a1b7f11"],
)


async def _idempotency_key(request: Request, given: Annotated[str | None, _KEY] = None) -> Key | None:
    """The request's key, scoped by the API key: one caller's keys are apart from another's."""
    api_key = getattr(request.state, "key", None)
    return Key(given, f"api:{api_key['_id']}" if api_key else "api") if given else None


IdempotencyKey = Annotated[Key | None, Depends(_idempotency_key)]
NeededKey = Annotated[str, _KEY]


def header(scope: Scope, name: bytes) -> str:
    """One header's value, empty where there is none; its name in small letters."""
    for given, value in scope["headers"]:
        if given == name:
            return str(value.decode("latin-1"))
    return ""


def address_of(scope: Scope) -> str:
    """Who is at the other end; behind trusted proxies, who is at the other end of theirs."""
    client = scope.get("client")
    return str(client[0]) if client else ""
