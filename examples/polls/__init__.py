"""Polls: questions with a few options, and one vote per person. An example of a system outside of Squinney."""

from polls.documents import COLLECTIONS, Poll, Vote
from polls.errors import AlreadyVoted, PollClosed, UnknownPoll
from polls.polls import Polls
from polls.queries import QUERIES
from polls.repair import find_problems, repair

__all__ = [
    "COLLECTIONS",
    "QUERIES",
    "AlreadyVoted",
    "Poll",
    "PollClosed",
    "Polls",
    "UnknownPoll",
    "Vote",
    "find_problems",
    "repair",
]
