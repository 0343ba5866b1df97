"""The table from error families to HTTP statuses. It imports no web framework, so any program can use it."""

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

# The first matching entry applies, so exceptions to a family come before the family.
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
    """Return the HTTP status of the error's family."""
    return next((status for family, status in STATUSES.items() if isinstance(error, family)), 500)
