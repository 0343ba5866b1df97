"""The document types and collections of comments, in three storage strategies, of their subjects, and of flags."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypedDict

from squinney.mongo.schema import Collection, Index

FLAGS = "content.flags"
SUBJECTS = "content.subjects"  # subjects of the caller's own; a node is a subject too
COMMENTS = "content.comments"
PAGES = "content.comment_pages"

MAX_COMMENT_LENGTH = 10_000
MAX_COMMENT_DEPTH = 10
COMMENTS_A_PAGE = 100
# The server's limit is 16 MB. The rest is room for edits of the node's text.
MAX_EMBEDDED_BYTES = 13 * 2**20


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
        SUBJECTS,
        indexes=[
            Index(
                [("metadata.comments.author._id", 1)], sparse=True, why="a person's embedded comments, to erase them"
            ),
        ],
        shard_key={"_id": "hashed"},
    ),
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
        formerly="comments",
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
        formerly="comment_pages",
        indexes=[
            Index([("node_id", 1), ("page", 1)], unique=True, why="page()"),
            Index([("node_id", 1), ("comments.slug", 1)], why="get() and permalinks"),
            Index([("comments.author._id", 1)], sparse=True, why="a person's comments, to erase them"),
        ],
        shard_key={"node_id": 1, "page": 1},
    ),
]
