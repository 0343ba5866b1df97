"""What the parts of the network have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pymongo.client_session import ClientSession

from squinney import checks
from squinney.errors import Invalid
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.social import members, queries
from squinney.social.documents import User
from squinney.social.errors import UnknownUser
from squinney.transactions import in_transaction

T = TypeVar("T")

SECONDS = 10


def do(db: Db, work: Callable[[ClientSession], T], *, seconds: float = SECONDS) -> T:
    """One transaction."""
    return in_transaction(db, work, seconds=seconds)


@operation()
def change_member(db: Db, me: str, change: Document) -> User:
    """Change a member's own document, in one update.

    Raises: `UnknownUser`.
    """
    checks.identifier(me, "me")
    where = {**queries.USER(user=me), "left_at": None}
    found = db["social.users"].find_one_and_update(where, change, return_document=True)
    if found is None:
        raise UnknownUser(f"there is no member {me}", user=me)
    return members.as_user(found)


def check_two(me: str, other: str, field: str = "other") -> None:
    """Raises: `Invalid` where these are no ids of two people."""
    checks.identifier(me, "me")
    checks.identifier(other, field)
    if me == other:
        raise Invalid(f"{field} must be somebody else", field=field)


def check_viewer(viewer: str | None) -> None:
    """Raises: `Invalid` where this is neither an id nor a visitor."""
    if viewer is not None:
        checks.identifier(viewer, "viewer")
