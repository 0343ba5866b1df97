"""Headers and addresses, as the layers read them at every request."""

from __future__ import annotations

from starlette.types import Scope


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
