"""The document types and collections of comments, in three storage strategies, and of flags."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from squinney.content.documents import Author
from squinney.mongo.schema import Collection, Index

FLAGS = "content.flags"
COMMENTS = "comments"
PAGES = "comment_pages"

Strategy = Literal["separate", "embedded", "paged"]
MOST_COMMENT = 10_000
MOST_COMMENT_DEPTH = 10
COMMENTS_A_PAGE = 100
# The server's limit is 16 MB. The rest is room for edits of the node's text and for transaction markers.
MOST_EMBEDDED_BYTES = 13 * 2**20


class Discussion(TypedDict):
    """How a node's comments are stored. Each conversion claims the next epoch.

    `frozen` is set for the moment in which a conversion switches the strategy.
    """

    strategy: Strategy
    epoch: int
    claimed: int
    frozen: NotRequired[dict[str, Any]]


class Comment(TypedDict):
    """A comment. `_id` is its time and the last segment of its slug; `slug` and `full_slug` also name its ancestors."""

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


class Flag(TypedDict):
    """A flagged comment in the moderators' queue."""

    _id: str
    node_id: str
    slug: str
    by: list[str]
    reasons: list[str]
    first_at: datetime
    state: Literal["open", "kept", "removed"]


COMMENT_COLLECTIONS = [
    Collection(
        FLAGS,
        indexes=[
            Index([("state", 1), ("first_at", 1), ("_id", 1)], why="the moderators' queue, oldest first"),
            Index([("by", 1)], why="flags that a person set, to erase them"),
            Index([("decided_by", 1)], sparse=True, why="flags that a person decided, to erase their name"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        COMMENTS,
        indexes=[
            Index([("node_id", 1), ("posted", 1), ("_id", 1)], why="page() in chronological order"),
            Index([("node_id", 1), ("full_slug", 1)], why="page() in threaded order, and discussion()"),
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
