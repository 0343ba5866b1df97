"""The document types and collections of nodes and their versions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NotRequired, TypedDict

from squinney.content.documents import Author, Comment, Discussion
from squinney.mongo.schema import Collection, Index
from squinney.transactions import CHECKS_FIELD

NODES = "content.nodes"
REVISIONS = "content.revisions"

MAX_DEPTH = 20
MAX_TAGS = 50
WITHOUT_COMMENTS = {"metadata.comments": 0, CHECKS_FIELD: 0}


class Access(TypedDict):
    """The principals that may read and edit a node: "everyone", "signed-in", "user:ID" or "role:NAME"."""

    read: list[str]
    edit: list[str]


class Metadata(TypedDict):
    """The fields of a node, apart from its id."""

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
    kept_for: NotRequired[str]  # the system that decides who may see this node; see `Viewer.may`
    discussion: NotRequired[Discussion]
    comments: NotRequired[list[Comment]]


class Node(TypedDict):
    """A page, blog entry, photo, video, folder, blog or gallery."""

    _id: str
    metadata: Metadata


class Revision(TypedDict):
    """One saved version of a node. The newest version equals the current node."""

    _id: str
    node_id: str
    nonce: str
    version: int
    at: datetime
    author: Author
    session: str | None
    metadata: dict[str, Any]


NODE_COLLECTIONS = [
    Collection(
        NODES,
        indexes=[
            Index([("metadata.parent_id", 1), ("metadata.slug", 1)], unique=True, why="by_path(), get(), children()"),
            Index([("metadata.tags", 1), ("metadata.published", -1), ("_id", -1)], why="tagged()"),
            Index([("metadata.parent_id", 1), ("metadata.published", -1), ("_id", -1)], why="recent() and feeds"),
            Index([("metadata.author._id", 1)], why="nodes that a person wrote, to erase their name"),
            Index([("metadata.detail.file_id", 1)], sparse=True, why="whether a node still shows a file"),
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
            Index([("metadata.parent_id", 1), ("metadata.slug", 1), ("at", -1)], why="moved_to(): former paths"),
            Index([("author._id", 1)], why="versions that a person saved, to erase their name"),
            Index([("metadata.author._id", 1)], why="versions of nodes that a person wrote, to erase their name"),
        ],
        shard_key={"node_id": 1, "nonce": 1},
    ),
]
