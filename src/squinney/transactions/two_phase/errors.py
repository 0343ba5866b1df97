"""The errors of a two-phase run, besides those of `squinney.transactions`."""

from __future__ import annotations

from squinney.errors import Conflict, Unavailable


class StillRunning(Conflict):
    """An operation with the same idempotency key is still running; try again."""


class TimedOut(Unavailable):
    """The deadline passed; nothing was changed."""
