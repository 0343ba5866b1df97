"""Signed cursors: opaque, and valid only for the list and the API key that they were issued for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, cast

from fastapi import Depends, Query, Request

from squinney.errors import Invalid
from squinney.http.access.visitor import SIGNATURE_CHARACTERS, is_one_of, signature_of
from squinney.http.site_options import SiteOptions

MAX_LENGTH = 4_000  # fits into a URL with every proxy and browser


async def cursor_signer(request: Request) -> Callable[[str | None], str | None]:
    """Return a function that signs a page's `next` for this list and caller."""
    return lambda cursor: sign(request, cursor, request.url.path)


async def signed_cursor(
    request: Request,
    cursor: Annotated[
        str | None,
        Query(max_length=MAX_LENGTH, description="`next` of the previous page"),
    ] = None,
) -> str | None:
    """Return the cursor of the request without its signature.

    Raises: `Invalid` for a cursor that this list did not issue to this caller.
    """
    return unsigned(request, cursor, request.url.path)


def sign(request: Request, cursor: str | None, name: str) -> str | None:
    """Return a page's `next`, signed for the list with this name, which is its path if it has one of its own."""
    return None if cursor is None else _signatures(request, cursor, name)[0] + cursor


def unsigned(request: Request, cursor: str | None, name: str) -> str | None:
    """Return a signed cursor without its signature.

    Raises: `Invalid` for a cursor that the list with this name did not issue to this caller.
    """
    if cursor is None:
        return None
    signature, plain = cursor[:SIGNATURE_CHARACTERS], cursor[SIGNATURE_CHARACTERS:]
    if not is_one_of(signature, _signatures(request, plain, name)):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return plain


Cursor = Annotated[str | None, Depends(signed_cursor)]
Limit = Annotated[int, Query(ge=1, le=200)]
SignCursor = Annotated[Callable[[str | None], str | None], Depends(cursor_signer)]


def _signatures(request: Request, cursor: str, name: str) -> list[str]:
    """Return the cursor's signature, and those that earlier secrets gave it."""
    options = cast(SiteOptions, request.app.state.options)
    key = getattr(request.state, "key", None)
    signed = f"{key['_id'] if key else ''}\n{name}\n{cursor}"
    return [signature_of(secret, "cursor", signed) for secret in options.secrets]
