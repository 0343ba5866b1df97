"""Who may do what on pages, and that a form was sent from our own."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, Request

from squinney.errors import Forbidden
from squinney.http.visitor import SignedIn, visitor_of
from squinney.roles import may_act_as

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}


def forged() -> Forbidden:
    """What a write from elsewhere is refused with."""
    return Forbidden("that form was not sent from this site, or its page is too old: load it again")


class SignInNeeded(Forbidden):
    """Somebody who has not signed in wants what needs a role."""


def signed_in(request: Request) -> SignedIn:
    """The person who has signed in.

    Raises: `SignInNeeded`.
    """
    person = visitor_of(request).person
    if person is None:
        raise SignInNeeded("sign in first")
    return person


def is_admin(request: Request) -> bool:
    """Whether the visitor may do everything."""
    return may_act_as(visitor_of(request).role, "admin")


async def _check_csrf(request: Request) -> None:
    """A write carries the visitor's token, in its form or, from our scripts, in a header."""
    if request.method in SAFE_METHODS:
        return
    given: object = request.headers.get("x-csrf-token")
    if given is None:
        given = (await request.form()).get("csrf")
    if not isinstance(given, str) or not visitor_of(request).may_send(given):
        raise forged()


csrf_checked = Depends(_check_csrf)


def needs(role: str, *, for_writes: bool = False) -> Any:
    """A dependency that lets in whoever has this role or a higher one; `for_writes`, and reads by anybody."""

    async def check(request: Request) -> None:
        if (for_writes and request.method in SAFE_METHODS) or may_act_as(visitor_of(request).role, role):
            return
        signed_in(request)
        raise Forbidden(f"this needs the role of {role}", role=role)

    return Depends(check)
