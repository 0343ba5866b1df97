"""The errors that analytics raises."""

from __future__ import annotations

from typing import Any

from squinney.errors import Conflict, Invalid, NotFound


class UnknownFormat(Invalid):
    """No parser understands this log."""


class NotALog(Invalid):
    """The file is not text."""


class NotUnderstood(Invalid):
    """Every line of the log was rejected; `imported` is the result of the import, an `Imported`."""

    def __init__(self, message: str, imported: Any, **details: Any) -> None:
        super().__init__(message, **details)
        self.imported = imported


class UnknownSource(NotFound):
    """Nothing was imported under this source."""


class ImportRunning(Conflict):
    """Another process imports the same source."""


class NotRolledUp(Conflict):
    """The action would delete events that a roll-up has not counted yet."""


class Frozen(Conflict):
    """The raw events of this time were dropped, so its roll-ups cannot be recomputed."""
