"""The errors of a run of guarded steps, besides those that its steps name."""

from __future__ import annotations

from squinney.errors import Conflict, Invalid, Unavailable


class Busy(Conflict):
    """Another operation holds a document; try again."""


class Stale(Conflict):
    """The plan was made from a document that has changed since.

    If `run` was given a callable, it calls it again to build new steps.
    """


class StillRunning(Conflict):
    """An operation with the same idempotency key is still running."""


class KeyReused(Conflict):
    """The idempotency key was already used with other arguments."""


class AlreadyExists(Conflict):
    """A document with the same id or unique value exists."""


class TimedOut(Unavailable):
    """The deadline passed; nothing was changed."""


class WriteRefused(Invalid):
    """The server rejects what a step writes: because of a validator, the size, or an operator that does not fit."""
