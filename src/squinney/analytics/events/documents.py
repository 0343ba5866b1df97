"""The shapes and collections of the event log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NotRequired, TypedDict

from bson.timestamp import Timestamp

from squinney.mongo.schema import Collection, Index

LONGEST_TEXT = 16_384
LONGEST_SITE = 1_024


class Event(TypedDict, total=False):
    """One request as a web server logged it. What the log shows as `-` is absent.

    `arrived` is filled in by the server at the insert: roll-ups follow arrival, not `time`. `ssk` is a hash of `_id`,
    the synthetic half of the shard key. `request` stands in for method and path where the client sent nonsense.
    """

    _id: str
    arrived: Timestamp
    site: str
    time: datetime
    host: str
    user: str
    method: str
    path: str
    query: str
    protocol: str
    status: int
    bytes: int
    referer: str
    user_agent: str
    request: str
    ssk: int


class Chain(TypedDict):
    """What the first lines of a log are known by: how many bytes they have, and a digest for each."""

    bytes: int
    digests: bytes


class Tail(TypedDict):
    """What the last bytes before a checkpoint are known by."""

    length: int
    hash: str


class Import(TypedDict):
    """How far a source was read. `offset` counts decompressed bytes.

    `head_*`, `chain` and `tail` are how the source is known again.
    """

    _id: str
    name: str
    site: str
    format: str
    head_length: int
    head_hash: str
    offset: int
    lines: int
    stored: int
    rejected: int
    blank: int
    state: str
    updated_at: datetime
    hits_offset: NotRequired[int]
    unterminated: NotRequired[bool]
    chain: NotRequired[Chain]
    tail: NotRequired[Tail | None]


class Reject(TypedDict):
    """A line that is no event, and why."""

    _id: str
    source: str
    line_number: int
    offset: int
    line: str
    reason: str
    at: datetime


EVENT_INDEXES = [
    Index([("path", 1), ("time", 1)], why="by_path()"),
    Index([("host", 1), ("time", 1)], why="by_host()"),
    Index([("time", 1)], why="between(), and what roll-ups recompute"),
    Index([("arrived", 1)], why="what roll-ups have not seen yet"),
]
EVENT_SHARD_KEY = {"path": 1, "ssk": 1}


def events_collection(name: str = "events", **options: Any) -> Collection:
    """The declaration of a collection of events: the main one, or a day's or month's when they rotate."""
    return Collection(name, indexes=EVENT_INDEXES, shard_key=EVENT_SHARD_KEY, options=options)


LOG_COLLECTIONS = [
    events_collection(),
    Collection(
        "imports",
        indexes=[
            Index([("head_hash", 1), ("head_length", -1)], why="knows a source again, by its longest head"),
            Index([("updated_at", -1), ("_id", 1)], why="imports()"),
        ],
        unsharded="one small document per log file",
    ),
    Collection(
        "rejects",
        indexes=[Index([("source", 1), ("offset", 1)], why="rejects()")],
        shard_key={"_id": "hashed"},
    ),
    Collection("retention", unsharded="one document"),
]
