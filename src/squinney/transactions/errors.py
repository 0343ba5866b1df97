"""The errors of a run of guarded steps, besides those that its steps name."""

from __future__ import annotations

from squinney.errors import Conflict, Invalid


class Busy(Conflict):
    """Other operations hold a document; try again."""


class Stale(Conflict):
    """The plan was made from a document that has changed since.

    If `run` was given a callable, it calls it again to build new steps.
    """


class KeyReused(Conflict):
    """The idempotency key was already used with other arguments."""


class AlreadyExists(Conflict):
    """A document with the same id or unique value exists."""


class WriteRefused(Invalid):
    """The server rejects what a step writes: because of a validator, the size, or an operator that does not fit."""
