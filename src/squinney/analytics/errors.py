"""What analytics refuses."""

from squinney.errors import Conflict, Invalid, NotFound


class UnknownFormat(Invalid):
    """No parser understands this log."""

    code = "unknown-format"


class NotALog(Invalid):
    """The file is not text."""

    code = "not-a-log"


class UnknownSource(NotFound):
    """Nothing was imported under this source."""

    code = "unknown-source"


class ImportRunning(Conflict):
    """Another process imports the same source."""

    code = "import-running"


class NotRolledUp(Conflict):
    """Events that no roll-up has counted yet would be lost."""

    code = "not-rolled-up"


class Frozen(Conflict):
    """The raw events of this time are gone, so its roll-ups stay as they are."""

    code = "frozen"
