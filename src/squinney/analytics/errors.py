"""The errors that analytics raises."""

from squinney.errors import Conflict, Invalid, NotFound


class UnknownFormat(Invalid):
    """No parser understands this log."""


class NotALog(Invalid):
    """The file is not text."""


class UnknownSource(NotFound):
    """Nothing was imported under this source."""


class ImportRunning(Conflict):
    """Another process imports the same source."""


class NotRolledUp(Conflict):
    """The action would delete events that a roll-up has not counted yet."""


class Frozen(Conflict):
    """The raw events of this time were dropped, so its roll-ups cannot be recomputed."""
