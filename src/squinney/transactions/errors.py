"""What a run of guarded steps can answer besides its outcome."""

from __future__ import annotations

from squinney.errors import Conflict, Invalid, Unavailable


class Busy(Conflict):
    """Another operation holds a document; try again."""


class Stale(Conflict):
    """The plan was made from a document that has changed since.

    A step refused with it makes `run` build the steps anew, where they were given as a callable.
    """


class StillRunning(Conflict):
    """The same idempotency key is at work elsewhere."""


class KeyReused(Conflict):
    """The same idempotency key came with other arguments."""


class AlreadyExists(Conflict):
    """A document with the same id or unique value exists."""


class TimedOut(Unavailable):
    """The deadline passed; nothing was changed."""


class WriteRefused(Invalid):
    """The server refuses what a step writes: a validator, a size, an operator that does not fit the value."""
