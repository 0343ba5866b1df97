"""Who is there: joining, and the handle under which others mention them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from pymongo.client_session import ClientSession

from squinney.mongo.schema import Db, Document
from squinney.social import queries, rules
from squinney.social.documents import Person, User
from squinney.social.errors import AlreadyJoined, UnknownUser
from squinney.social.rules import STRANGER, Relation

HANDLES_TRIED = 9
NOBODY = ""  # whose edges a visitor has


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


class Relations:
    """People by their ids; somebody who is not there is a stranger, of whom nothing is shown."""

    def __init__(self, found: Mapping[str, Relation]) -> None:
        self._found = found

    def __getitem__(self, person: str) -> Relation:
        return self._found.get(person, STRANGER)

    def person(self, person: str) -> Person:
        """Somebody as the viewer may know them: one who has left, or is blocked, has no name."""
        one = self[person]
        shown = one.shows
        return {"id": person, "name": one.name if shown else None, "handle": one.handle if shown else None}


def relations(
    db: Db,
    viewer: str | None,
    people: Iterable[str],
    session: ClientSession | None = None,
    *,
    must_be_here: bool = True,
) -> Relations:
    """What those people are to the viewer, in one round trip; in a transaction, which allows no union, in two.

    Raises: `UnknownUser` where the viewer is no member, and must be one.
    """
    wanted = sorted({*people, viewer} if viewer is not None else set(people))
    owner = NOBODY if viewer is None else viewer
    users: dict[str, Document] = {}
    edges: dict[str, Document] = {}
    for one in _documents(db, owner, wanted, session):
        if isinstance(one["_id"], dict):
            edges[one["_id"]["other"]] = one
        else:
            users[one["_id"]] = one
    found = Relations({one: rules.relation_of(users.get(one), edges.get(one)) for one in wanted})
    if must_be_here and viewer is not None and not found[viewer].here:
        raise UnknownUser(f"there is no member {viewer}", user=viewer)
    return found


def _documents(db: Db, owner: str, people: list[str], session: ClientSession | None) -> Iterator[Document]:
    if session is None:
        yield from db["social.users"].aggregate(queries.PEOPLE(viewer=owner, people=people))
    else:
        yield from queries.SOME_USERS.find(db, users=people, session=session)
        yield from queries.EDGES_TO.find(db, owner=owner, others=people, session=session)


def member(db: Db, user: str, session: ClientSession | None = None) -> Document:
    """A member's own document.

    Raises: `UnknownUser`.
    """
    found = db["social.users"].find_one(queries.USER(user=user), session=session)
    if found is None or found.get("left_at"):
        raise UnknownUser(f"there is no member {user}", user=user)
    return found
