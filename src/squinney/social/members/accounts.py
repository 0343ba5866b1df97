"""Accounts of members: joining, reading, changing and leaving; and handles, which texts mention."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from squinney import checks
from squinney.clock import Clock
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns.queue import Queue
from squinney.social import queries, rules
from squinney.social.documents import COLLECTIONS, User
from squinney.social.errors import AlreadyJoined, UnknownUser
from squinney.transactions import Step, once

HANDLES_TRIED = 9
JOIN_TRIES = 5
OWN = {collection.name for collection in COLLECTIONS}  # steps of a caller must be on other collections


def new_member(user: str, name: str, handle: str, now: datetime) -> Document:
    """Return the user document of a member who joins now."""
    return {
        "_id": user,
        "name": name,
        "handle": handle,
        "profile": {},
        "circles": [],
        "circled": 0,
        "blocks": 0,
        "muted": [],
        "merged": [],
        "rates": {},
        "seen_at": now,
        "joined_at": now,
    }


def join(db: Db, user: str, name: str, clock: Clock, also: Sequence[Step]) -> User:
    """Insert a new member with a free handle.

    Raises: `AlreadyJoined`.
    """

    def work(session: ClientSession) -> Document:
        return _join(db, user, name, clock(), session)

    for attempt in range(JOIN_TRIES):
        try:
            return as_user(once(db, "social.join", work, also=also, own=OWN))
        except DuplicateKeyError:  # a concurrent call took the handle
            if attempt == JOIN_TRIES - 1:
                raise
    raise AssertionError("the last try returns or raises")


def _join(db: Db, user: str, name: str, now: datetime, session: ClientSession) -> Document:
    """Insert a new member with a free handle, and return the user document.

    Raises: `AlreadyJoined`.
    """
    if queries.USER.find_one(db, user=user, session=session) is not None:
        raise AlreadyJoined(f"{user} has joined before", user=user)
    made = new_member(user, name, _free_handle(db, name, session), now)
    db["social.users"].insert_one(made, session=session)
    db["social.handles"].insert_one({"_id": made["handle"], "user": user}, session=session)
    return made


def _free_handle(db: Db, name: str, session: ClientSession) -> str:
    first = rules.handle_for(name)
    tried = [first, *(f"{first}-{number}" for number in range(2, HANDLES_TRIED))]
    taken = {handle["_id"] for handle in queries.SOME_HANDLES.find(db, handles=tried, session=session)}
    return next((handle for handle in tried if handle not in taken), f"{first}-{secrets.token_hex(3)}")


def get_member(db: Db, user: str, session: ClientSession | None = None) -> Document:
    """Return a member's user document.

    Raises: `UnknownUser`.
    """
    member = queries.USER.find_one(db, user=user, session=session)
    if member is None or member.get("left_at"):
        raise unknown_user(user)
    return member


def unknown_user(user: str) -> UnknownUser:
    """Return the error for a user who is not a member, or has left."""
    return UnknownUser(f"there is no member {user}", user=user)


def as_user(user: Document) -> User:
    """Return a member's account, as the member sees it."""
    return {
        "id": user["_id"],
        "name": user["name"],
        "handle": user["handle"],
        "profile": user["profile"],
        "circles": sorted(user["circles"], key=lambda circle: circle["name"]),
        "joined_at": user["joined_at"],
    }


def leave(
    db: Db, queue: Queue, me: str, task: Document, condition: Document, clock: Clock, also: Sequence[Step]
) -> None:
    """Mark the member as left, if the user document fulfils the condition, and queue the task that deletes the rest."""
    where = {**queries.USER(user=checks.identifier(me, "me")), **condition}

    def work(session: ClientSession) -> None:
        change = {"$set": {"left_at": clock()}}
        if not db["social.users"].update_one(where, change, session=session).matched_count:
            raise unknown_user(me)
        queue.put(task, key=f"{task['do']}-{me}", session=session)

    once(db, "social.leave", work, also=also, own=OWN)


def mentioned(db: Db, text: str, session: ClientSession) -> list[str]:
    """Return the ids of the members whom the text mentions."""
    handles = rules.handles_in(text)
    if not handles:
        return []
    users = {
        handle["_id"]: handle["user"] for handle in queries.SOME_HANDLES.find(db, handles=handles, session=session)
    }
    return [users[handle] for handle in handles if handle in users]


@operation()
def change_member(db: Db, me: str, change: Document) -> User:
    """Apply one update to a member's user document, and return the changed account.

    Raises: `Invalid`, `UnknownUser`.
    """
    checks.identifier(me, "me")
    where = {**queries.USER(user=me), "left_at": None}
    user = db["social.users"].find_one_and_update(where, change, return_document=True)
    if user is None:
        raise unknown_user(me)
    return as_user(user)


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


def count_action(db: Db, user: Document, kind: str, now: datetime, session: ClientSession) -> None:
    """Count one action of the current minute. The write also conflicts with `leave`, so nobody posts while leaving.

    Raises: `TooFast`.
    """
    change = {"$set": rules.rate_update(user, kind, now)}
    db["social.users"].update_one(queries.USER(user=user["_id"]), change, session=session)


def is_member(db: Db, user: str, session: ClientSession | None = None) -> bool:
    """Return whether the user is a member now."""
    return db["social.users"].find_one({**queries.USER(user=user), "left_at": None}, session=session) is not None
