"""The errors of polls."""

from squinney.errors import Conflict, NotFound


class UnknownPoll(NotFound):
    """There is no poll with this id."""


class PollClosed(Conflict):
    """The poll is closed and accepts no more votes."""


class AlreadyVoted(Conflict):
    """This person has already voted in this poll."""
