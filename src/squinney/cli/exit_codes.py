"""The table from error families to exit codes."""

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

EXIT_CODES: dict[type[SquinneyError], int] = {
    Invalid: 2,
    NotFound: 3,
    Forbidden: 4,
    Conflict: 5,
    LimitReached: 6,
    Unavailable: 7,
}
FAILED = 70  # the command could not do its work; 1 means that it did, and found a problem
INTERRUPTED = 130


def exit_code_of(error: SquinneyError) -> int:
    """Return the exit code of the error's family."""
    return next((code for family, code in EXIT_CODES.items() if isinstance(error, family)), FAILED)
