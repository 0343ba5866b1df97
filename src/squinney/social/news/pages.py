"""Pages of lists by time: their order and positions, and the reader's document."""

from __future__ import annotations

from datetime import datetime

from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import cursor_keys
from squinney.social.members.accounts import unknown_user
from squinney.social.queries import Position

ORDER = [("ts", -1), ("_id", -1)]


def position_of(cursor: str | None) -> Position | None:
    """Return the position in a list by time that the cursor stands for.

    Raises: `Invalid`.
    """
    if cursor is None:
        return None
    keys = cursor_keys(ORDER, cursor)
    if not isinstance(keys["ts"], datetime) or not isinstance(keys["_id"], str):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return keys["ts"], keys["_id"]


def read_with_entries(db: Db, stages: list[Document], me: str) -> Document:
    """Return the member's document, with the entries of the list that the stages read.

    Raises: `UnknownUser`.
    """
    reader = next(iter(db["social.users"].aggregate(stages)), None)
    if reader is None or reader.get("left_at"):
        raise unknown_user(me)
    return reader
