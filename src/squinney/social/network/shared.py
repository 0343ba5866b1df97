"""Checks and updates that several parts of the network use."""

from __future__ import annotations

from squinney import checks
from squinney.errors import Invalid
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.social import members, queries
from squinney.social.documents import User


@operation()
def change_member(db: Db, me: str, change: Document) -> User:
    """Apply one update to a member's user document, and return the changed account.

    Raises: `Invalid`, `UnknownUser`.
    """
    checks.identifier(me, "me")
    where = {**queries.USER(user=me), "left_at": None}
    found = db["social.users"].find_one_and_update(where, change, return_document=True)
    if found is None:
        raise members.unknown_user(me)
    return members.as_user(found)


def check_two_members(me: str, other: str, field: str = "other") -> None:
    """Raise `Invalid` unless both values are valid ids and differ."""
    checks.identifier(me, "me")
    checks.identifier(other, field)
    if me == other:
        raise Invalid(f"{field} must be another member", field=field)


def check_viewer(viewer: str | None) -> None:
    """Raise `Invalid` unless the viewer is a valid id, or None for a visitor."""
    if viewer is not None:
        checks.identifier(viewer, "viewer")
