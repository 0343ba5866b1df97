"""Checks of pages: the visitor's role, and that a form was sent from this site."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, Request

from squinney.errors import Forbidden
from squinney.http.access.visitor import SignedIn, visitor_of
from squinney.roles import may_act_as

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}


def csrf_error() -> Forbidden:
    """Return the error for a write that was not sent from this site's own pages."""
    return Forbidden("this form was not sent from this site, or its page is too old: reload the page and try again")


class SignInNeeded(Forbidden):
    """The visitor has not signed in, and the page requires a role."""


def signed_in(request: Request) -> SignedIn:
    """Return the person who has signed in.

    Raises: `SignInNeeded`.
    """
    person = visitor_of(request).person
    if person is None:
        raise SignInNeeded("sign in first")
    return person


def is_admin(request: Request) -> bool:
    """Return whether the visitor is an admin."""
    return may_act_as(visitor_of(request).role, "admin")


async def _check_csrf(request: Request) -> None:
    if request.method not in SAFE_METHODS:
        await require_csrf(request)


async def require_csrf(request: Request) -> None:
    """Require the visitor's CSRF token: in the form or, sent by a script, in a header.

    Raises: `Forbidden`.
    """
    given: object = request.headers.get("x-csrf-token")
    if given is None:
        given = (await request.form()).get("csrf")
    if not isinstance(given, str) or not visitor_of(request).is_csrf_valid(given):
        raise csrf_error()


csrf_checked = Depends(_check_csrf)


def needs(role: str, *, for_writes: bool = False) -> Any:
    """Return a dependency that requires this role or a higher one; with `for_writes` only for writes."""

    async def check(request: Request) -> None:
        if (for_writes and request.method in SAFE_METHODS) or may_act_as(visitor_of(request).role, role):
            return
        signed_in(request)
        raise Forbidden(f"this requires the role {role}", role=role)

    return Depends(check)
