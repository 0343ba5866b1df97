"""What analytics refuses."""

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
    """Events that no roll-up has counted yet would be lost."""


class Frozen(Conflict):
    """The raw events of this time are gone, so its roll-ups stay as they are."""
