"""The shapes and collections of polls."""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index

MOST_OPTIONS = 20


class Option(TypedDict):
    """One answer, with its votes counted."""

    name: str
    votes: int


class Poll(TypedDict):
    """A question. Its options are inside it, so that one read shows the result."""

    _id: str
    question: str
    options: list[Option]
    opened_at: datetime
    closed_at: NotRequired[datetime]


class Vote(TypedDict):
    """What one person voted. Its `_id` is made of both, so that a second vote meets the first."""

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
