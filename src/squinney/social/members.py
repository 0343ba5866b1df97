"""Who is there: joining, and the handle under which others mention them."""

from __future__ import annotations

import secrets
from datetime import datetime

from pymongo.client_session import ClientSession

from squinney.mongo.schema import Db, Document
from squinney.social import queries, rules
from squinney.social.documents import User
from squinney.social.errors import AlreadyJoined

HANDLES_TRIED = 9


def new_member(user: str, name: str, handle: str, now: datetime) -> Document:
    """A member's document at the beginning."""
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


def join(db: Db, user: str, name: str, now: datetime, session: ClientSession) -> Document:
    """Make a member, with a free handle.

    Raises: `AlreadyJoined`.
    """
    if db["social.users"].find_one(queries.USER(user=user), session=session) is not None:
        raise AlreadyJoined(f"{user} has joined before", user=user)
    made = new_member(user, name, _free_handle(db, name, session), now)
    db["social.users"].insert_one(made, session=session)
    db["social.handles"].insert_one({"_id": made["handle"], "user": user}, session=session)
    return made


def _free_handle(db: Db, name: str, session: ClientSession) -> str:
    first = rules.handle_for(name)
    tried = [first, *(f"{first}-{number}" for number in range(2, HANDLES_TRIED))]
    taken = {one["_id"] for one in queries.SOME_HANDLES.find(db, handles=tried, session=session)}
    return next((one for one in tried if one not in taken), f"{first}-{secrets.token_hex(3)}")


def as_user(user: Document) -> User:
    """A member as they see themselves."""
    return {
        "id": user["_id"],
        "name": user["name"],
        "handle": user["handle"],
        "profile": user["profile"],
        "circles": sorted(user["circles"], key=lambda one: one["name"]),
        "joined_at": user["joined_at"],
    }


def mentioned(db: Db, text: str, session: ClientSession) -> list[str]:
    """The members whom a text mentions."""
    handles = rules.handles_in(text)
    if not handles:
        return []
    found = {one["_id"]: one["user"] for one in queries.SOME_HANDLES.find(db, handles=handles, session=session)}
    return [found[handle] for handle in handles if handle in found]
