"""The one table from families of errors to HTTP statuses. It needs no web framework: any may use it."""

from __future__ import annotations

from squinney.errors import (
    Conflict,
    CredentialsRefused,
    Forbidden,
    Invalid,
    LimitReached,
    NotFound,
    SquinneyError,
    TooManyRequests,
    Unavailable,
)

# The first that fits counts, so that the few exceptions to a family stand before it.
STATUSES: dict[type[SquinneyError], int] = {
    CredentialsRefused: 401,
    TooManyRequests: 429,
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
