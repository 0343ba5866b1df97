"""Cursors as callers see them: opaque, and good only for the list and the caller they were given to."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Annotated, cast

from fastapi import Depends, Query, Request

from squinney.errors import Invalid
from squinney.http.options import Options
from squinney.http.visitor import SIGNATURE_CHARACTERS, signed

LONGEST = 4_000  # what fits into a URL everywhere


async def signing(request: Request) -> Callable[[str | None], str | None]:
    """Signs a page's `next` for this list and caller."""
    return lambda cursor: None if cursor is None else _signature(request, cursor) + cursor


async def signed_cursor(
    request: Request,
    cursor: Annotated[
        str | None,
        Query(max_length=LONGEST, description="`next` of the page before"),
    ] = None,
) -> str | None:
    """The cursor that the caller sent back, without its signature.

    Raises: `Invalid` for one that this list did not give to this caller.
    """
    if cursor is None:
        return None
    signature, plain = cursor[:SIGNATURE_CHARACTERS], cursor[SIGNATURE_CHARACTERS:]
    if not hmac.compare_digest(_signature(request, plain).encode(), signature.encode("utf-8", "replace")):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return plain


Cursor = Annotated[str | None, Depends(signed_cursor)]
Limit = Annotated[int, Query(ge=1, le=200)]
Signing = Annotated[Callable[[str | None], str | None], Depends(signing)]


def _signature(request: Request, cursor: str) -> str:
    options = cast(Options, request.app.state.options)
    key = getattr(request.state, "key", None)
    return signed(options.secret, "cursor", f"{key['_id'] if key else ''}\n{request.url.path}\n{cursor}")
