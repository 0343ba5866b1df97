"""The document types that nodes and comments share."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

Strategy = Literal["separate", "embedded", "paged"]
MAX_TEXT_LENGTH = 500_000


class Author(TypedDict):
    """The author of a node or comment: an opaque user id, and the user's name at the time of writing."""

    _id: str
    name: str


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
