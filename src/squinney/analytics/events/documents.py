"""The document types and collections of the event log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NotRequired, TypedDict

from bson.timestamp import Timestamp

from squinney.analytics.log_files.content import Chain, Tail
from squinney.mongo.schema import Collection, Index

EVENTS = "analytics.events"
IMPORTS = "analytics.imports"
REJECTS = "analytics.rejects"
LIVE = "live"  # the source of recorded events
FORGETTING = "forgetting"  # the state of a source that is being deleted


class Event(TypedDict, total=False):
    """One request from a web server's log. A field that the log shows as `-` is absent.

    `request` replaces method and path where the request line is malformed. An event is deleted at its `forget_at`, or
    up to an hour earlier, with the others of its page.
    """

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
    country: str
    seconds: float
    request: str
    forget_at: datetime


# A page of events of one source, one site and one hour (UTC), from the first time to the last. It is never changed.
# `_id` is "<hour>/<source>/<block>", `end` the byte of the source after its last line. MongoDB sets `arrived` at the
# insert; roll-ups find new pages by it. A `loose` page is small, and will be packed together with others.
EventPage = TypedDict(
    "EventPage",
    {
        "_id": str,
        "source": str,
        "site": NotRequired[str],
        "from": datetime,
        "to": datetime,
        "n": int,
        "end": NotRequired[int],
        "arrived": Timestamp,
        "loose": NotRequired[bool],
        "forget_at": NotRequired[datetime],
        "events": list[dict[str, Any]],
    },
)


class Import(TypedDict):
    """The progress of a source's import. `offset` is its checkpoint, in decompressed bytes.

    `head_*`, `chain` and `tail` identify the source when its file is imported again. While every line was rejected, it
    starts over when it is imported with other formats than those it `tried`. `packed` counts the packings of its pages.
    A source is `by_hand` until `follow` reads it.
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
    tried: NotRequired[str]
    chain: NotRequired[Chain]
    tail: NotRequired[Tail | None]
    packed: NotRequired[int]
    by_hand: NotRequired[bool]


class Reject(TypedDict):
    """A line that could not be stored as an event, and the reason."""

    _id: str
    source: str
    line_number: int
    offset: int
    line: str
    reason: str
    at: datetime


# As they were when each event was a document of its own: an older database is recognised by them.
FLAT_INDEXES = [
    Index([("path", 1), ("time", 1)]),
    Index([("host", 1), ("time", 1)]),
    Index([("time", 1)]),
    Index([("arrived", 1)]),
]
# Two indexes inside the array: an index cannot have two arrays, but `from` and `site` are not in one.
PAGE_INDEXES = [
    Index([("events.path", 1), ("from", 1)], compressor="zstd", why="by_path()"),
    Index([("events.host", 1), ("from", 1)], compressor="zstd", why="by_host(), and the sessions of a host"),
    Index([("from", 1), ("to", 1)], why="between(), and recomputing roll-ups"),
    Index([("arrived", 1)], why="pages that roll-ups have not counted yet"),
    Index([("source", 1), ("end", 1)], why="counting a source's hits, and forgetting it"),
    Index([("loose", 1), ("from", 1), ("source", 1)], partial={"loose": True}, why="packing"),
    Index([("forget_at", 1)], sparse=True, expire_after_seconds=0, why="deletes pages at their `forget_at`"),
]

LOG_COLLECTIONS = [
    Collection(
        EVENTS,
        formerly="events",
        former_indexes=FLAT_INDEXES,
        parts_in=r"_[dm]\d{6,8}",
        indexes=PAGE_INDEXES,
        shard_key={"_id": "hashed"},
        compressor="zstd",
    ),
    Collection(
        IMPORTS,
        formerly="imports",
        indexes=[
            Index([("head_hash", 1), ("head_length", -1)], why="finding a source by its longest head"),
            Index([("updated_at", -1), ("_id", 1)], why="imports()"),
            Index([("name", 1)], why="follow(): was this log followed before?"),
        ],
        unsharded="one small document per log file",
    ),
    Collection(
        REJECTS,
        formerly="rejects",
        indexes=[Index([("source", 1), ("offset", 1)], why="rejects()")],
        shard_key={"_id": "hashed"},
    ),
    Collection("analytics.retention", formerly="retention", unsharded="one document"),
]
