"""The document types and collections of the event log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NotRequired, TypedDict

from bson.timestamp import Timestamp

from squinney.mongo.schema import Collection, Index

LONGEST_TEXT = 16_384
LONGEST_SITE = 1_024


class Event(TypedDict, total=False):
    """One request from a web server's log. A field that the log shows as `-` is absent.

    MongoDB sets `arrived` at the insert; roll-ups find new events by it, not by `time`. `ssk` is a hash of `_id`, the
    synthetic part of the shard key. `request` replaces method and path where the request line is malformed.
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
    """Identifies a log's first lines: their length in bytes, and a digest for each line."""

    bytes: int
    digests: bytes


class Tail(TypedDict):
    """Identifies the last bytes before a checkpoint."""

    length: int
    hash: str


class Import(TypedDict):
    """The progress of a source's import. `offset` is its checkpoint, in decompressed bytes.

    `head_*`, `chain` and `tail` identify the source when its file is imported again.
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
    """A line that could not be stored as an event, and the reason."""

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
    Index([("time", 1)], why="between(), and recomputing roll-ups"),
    Index([("arrived", 1)], why="events that roll-ups have not counted yet"),
]
EVENT_SHARD_KEY = {"path": 1, "ssk": 1}


def events_collection(name: str = "events", **options: Any) -> Collection:
    """Declare a collection of events: the main one, or that of a day or month under a rotating policy."""
    return Collection(name, indexes=EVENT_INDEXES, shard_key=EVENT_SHARD_KEY, options=options)


LOG_COLLECTIONS = [
    events_collection(),
    Collection(
        "imports",
        indexes=[
            Index([("head_hash", 1), ("head_length", -1)], why="finding a source by its longest head"),
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
