"""What polls refuse."""

from squinney.errors import Conflict, NotFound


class UnknownPoll(NotFound):
    """There is no such poll."""


class PollClosed(Conflict):
    """The poll takes no more votes."""


class AlreadyVoted(Conflict):
    """This person has voted in this poll."""
