"""The shapes of content, and its collections.

A node's `metadata` is what people edit. Comments of the embedded strategy live in it too, so everything that reads a
node leaves `metadata.comments` out unless it wants them: `WITHOUT_COMMENTS`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index
from squinney.transactions import PROTOCOL_FIELDS

NODES = "content.nodes"
REVISIONS = "content.revisions"
ASSETS = "content.assets"
FILES = "content.assets.files"
CHUNKS = "content.assets.chunks"
UPLOADS = "content.uploads"
REMOVALS = "content.removals"
FLAGS = "content.flags"
COMMENTS = "comments"
PAGES = "comment_pages"

Strategy = Literal["separate", "embedded", "paged"]

MOST_DEPTH = 20
MOST_TEXT = 500_000
MOST_TAGS = 50
MOST_COMMENT = 10_000
MOST_COMMENT_DEPTH = 10
COMMENTS_A_PAGE = 100
# A node with comments inside must stay below the server's 16 MB with room for an edit of its text and its markers.
MOST_EMBEDDED_BYTES = 13 * 2**20

_MARKERS = dict.fromkeys(PROTOCOL_FIELDS, 0)
WITHOUT_MARKERS = dict(_MARKERS)
WITHOUT_COMMENTS = {"metadata.comments": 0, **_MARKERS}


class Author(TypedDict):
    """Who wrote it: an opaque id, and the name as it was then."""

    _id: str
    name: str


class Access(TypedDict):
    """Who may read and who may edit: "everyone", "signed-in", "user:ID", "role:NAME"."""

    read: list[str]
    edit: list[str]


class Discussion(TypedDict):
    """Where a node's comments live. A conversion claims the next epoch; `frozen` is one that is about to switch."""

    strategy: Strategy
    epoch: int
    claimed: int
    frozen: NotRequired[dict[str, Any]]


class Comment(TypedDict):
    """One comment. `_id` is its time and its own part of the slug; `slug` and `full_slug` name its ancestors too."""

    _id: str
    node_id: str
    parent_id: str | None
    slug: str
    full_slug: str
    posted: datetime
    author: Author
    text: str
    num_replies: int
    version: int
    edited: NotRequired[datetime]
    deleted: NotRequired[datetime]


class Metadata(TypedDict):
    """What a node says of itself."""

    nonce: str
    version: int
    type: str
    parent_id: str | None
    slug: str
    title: str
    created: datetime
    updated: datetime
    published: datetime | None
    author: Author
    tags: list[str]
    detail: dict[str, Any]
    num_children: int
    num_comments: int
    num_comment_pages: int
    access: NotRequired[Access]
    discussion: NotRequired[Discussion]
    comments: NotRequired[list[Comment]]


class Node(TypedDict):
    """A page, blog entry, photo, folder..."""

    _id: str
    metadata: Metadata


class Revision(TypedDict):
    """A node as one edit left it; the newest one is the node as it is."""

    _id: str
    node_id: str
    nonce: str
    version: int
    at: datetime
    author: Author
    session: str | None
    metadata: dict[str, Any]


class Upload(TypedDict):
    """An upload under way. While this exists and `seen` is fresh, its files are left alone."""

    _id: str
    file_id: str
    by: str
    started: datetime
    seen: datetime


class Flag(TypedDict):
    """A flagged comment in the moderators' queue."""

    _id: str
    node_id: str
    slug: str
    by: list[str]
    reasons: list[str]
    first_at: datetime
    state: Literal["open", "kept", "removed"]


COLLECTIONS = [
    Collection(
        NODES,
        indexes=[
            Index([("metadata.parent_id", 1), ("metadata.slug", 1)], unique=True, why="by_path(), get(), children()"),
            Index([("metadata.tags", 1), ("metadata.published", -1), ("_id", -1)], why="tagged()"),
            Index([("metadata.parent_id", 1), ("metadata.published", -1), ("_id", -1)], why="recent() and feeds"),
            Index([("metadata.author._id", 1)], why="what a person wrote, to erase their name"),
            Index([("metadata.detail.file_id", 1)], sparse=True, why="whether a file is still shown"),
            Index(
                [("metadata.comments.author._id", 1)], sparse=True, why="a person's embedded comments, to erase them"
            ),
        ],
        shard_key={"metadata.parent_id": 1, "metadata.slug": 1},
        validator={"$jsonSchema": {"required": ["metadata"], "properties": {"metadata": {"bsonType": "object"}}}},
    ),
    Collection(
        REVISIONS,
        indexes=[
            Index([("node_id", 1), ("nonce", 1)], unique=True, why="restore(), and the base of a conflict"),
            Index([("node_id", 1), ("version", -1)], why="history()"),
            Index([("metadata.parent_id", 1), ("metadata.slug", 1), ("at", -1)], why="moved_to(): what was at a place"),
            Index([("author._id", 1)], why="what a person saved, to erase their name"),
            Index([("metadata.author._id", 1)], why="versions of what a person wrote, to erase their name"),
        ],
        shard_key={"node_id": 1, "nonce": 1},
    ),
    Collection(
        FILES,
        indexes=[Index([("filename", 1), ("uploadDate", 1)], why="every GridFS driver makes it where it is missing")],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        CHUNKS,
        indexes=[Index([("files_id", 1), ("n", 1)], unique=True, why="reads a file in order")],
        shard_key={"files_id": 1, "n": 1},
    ),
    Collection(
        UPLOADS, indexes=[Index([("seen", 1)], why="stalled uploads, for the sweep")], shard_key={"_id": "hashed"}
    ),
    Collection(
        REMOVALS, indexes=[Index([("due_at", 1)], why="what the sweep may delete now")], shard_key={"_id": "hashed"}
    ),
    Collection(
        FLAGS,
        indexes=[
            Index([("state", 1), ("first_at", 1), ("_id", 1)], why="the moderators' queue, oldest first"),
            Index([("by", 1)], why="the flags a person set, to erase them"),
            Index([("decided_by", 1)], sparse=True, why="what a person decided, to erase their name"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        COMMENTS,
        indexes=[
            Index([("node_id", 1), ("posted", 1), ("_id", 1)], why="page() in the order of time"),
            Index([("node_id", 1), ("full_slug", 1)], why="page() by threads, and discussion()"),
            Index([("node_id", 1), ("slug", 1)], unique=True, why="get() and permalinks"),
            Index([("author._id", 1), ("posted", -1), ("_id", -1)], why="by_author()"),
        ],
        shard_key={"node_id": 1, "slug": 1},
    ),
    Collection(
        PAGES,
        indexes=[
            Index([("node_id", 1), ("page", 1)], unique=True, why="page()"),
            Index([("node_id", 1), ("comments.slug", 1)], why="get() and permalinks"),
            Index([("comments.author._id", 1)], sparse=True, why="a person's comments, to erase them"),
        ],
        shard_key={"node_id": 1, "page": 1},
    ),
]
