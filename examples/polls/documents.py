"""The document types and collections of polls."""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index

MAX_OPTIONS = 20


class Option(TypedDict):
    """One option of a poll, with the number of its votes."""

    name: str
    votes: int


class Poll(TypedDict):
    """A question. Its options are stored with it, so that one read shows the result."""

    _id: str
    question: str
    options: list[Option]
    opened_at: datetime
    closed_at: NotRequired[datetime]


class Vote(TypedDict):
    """The vote of one person. Its `_id` consists of poll and person, so the server refuses a second vote."""

    _id: str
    poll_id: str
    person_id: str
    option: str
    at: datetime


COLLECTIONS = [
    Collection(
        "polls",
        indexes=[Index([("opened_at", -1), ("_id", -1)], why="all(), newest first")],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "poll_votes",
        indexes=[Index([("poll_id", 1), ("option", 1)], why="find_problems() counts the votes of each option")],
        shard_key={"_id": "hashed"},
    ),
]
