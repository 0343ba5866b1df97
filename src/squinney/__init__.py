"""Ready-made, crash-safe application back ends on MongoDB."""

from importlib.metadata import version

from squinney.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LimitReached,
    NotFound,
    SquinneyError,
    Unavailable,
)

__version__ = version("squinney")
__all__ = [
    "Conflict",
    "Forbidden",
    "Invalid",
    "LimitReached",
    "NotFound",
    "SquinneyError",
    "Unavailable",
]
