"""The one table from families of errors to HTTP statuses. It needs no web framework: any may use it."""

from __future__ import annotations

from squinney.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LimitReached,
    NotFound,
    SquinneyError,
    Unavailable,
)
from squinney.http.errors import RateLimited
from squinney.identity import KeyRefused, SignInRefused, TooManyTries

# The first that fits counts, so that the few exceptions to a family stand before it.
STATUSES: dict[type[SquinneyError], int] = {
    KeyRefused: 401,
    SignInRefused: 401,
    TooManyTries: 429,
    RateLimited: 429,
    NotFound: 404,
    Invalid: 422,
    Forbidden: 403,
    Conflict: 409,
    LimitReached: 409,
    Unavailable: 503,
}


def status_of(error: SquinneyError) -> int:
    """The HTTP status of the error's family."""
    return next((status for family, status in STATUSES.items() if isinstance(error, family)), 500)
