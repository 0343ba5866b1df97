"""What documents of nodes and of comments share."""

from __future__ import annotations

from typing import TypedDict


class Author(TypedDict):
    """Who wrote it: an opaque id, and the name as it was then."""

    _id: str
    name: str
