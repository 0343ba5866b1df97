"""The document type that nodes and comments share."""

from __future__ import annotations

from typing import TypedDict


class Author(TypedDict):
    """The author of a node or comment: an opaque user id, and the user's name at the time of writing."""

    _id: str
    name: str
