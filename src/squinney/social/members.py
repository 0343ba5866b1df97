"""Members: joining, handles and mentions, and how each member relates to a viewer."""

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
VISITOR = ""  # the id of a viewer who is not a member; such a viewer has no edges


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


def join(db: Db, user: str, name: str, now: datetime, session: ClientSession) -> Document:
    """Insert a new member with a free handle, and return the user document.

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


def get_member(db: Db, user: str, session: ClientSession | None = None) -> Document:
    """Return a member's user document.

    Raises: `UnknownUser`.
    """
    found = db["social.users"].find_one(queries.USER(user=user), session=session)
    if found is None or found.get("left_at"):
        raise unknown_user(user)
    return found


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
        "circles": sorted(user["circles"], key=lambda one: one["name"]),
        "joined_at": user["joined_at"],
    }


def mentioned(db: Db, text: str, session: ClientSession) -> list[str]:
    """Return the ids of the members whom the text mentions."""
    handles = rules.handles_in(text)
    if not handles:
        return []
    found = {one["_id"]: one["user"] for one in queries.SOME_HANDLES.find(db, handles=handles, session=session)}
    return [found[handle] for handle in handles if handle in found]


# ---- relations to a viewer ----


class Relations:
    """Relations to one viewer by member id. An unknown id is a stranger, who is never visible."""

    def __init__(self, found: Mapping[str, Relation]) -> None:
        self._found = found

    def __getitem__(self, person: str) -> Relation:
        return self._found.get(person, STRANGER)

    def person(self, person: str) -> Person:
        """Return the member as the viewer sees them, without a name if the member has left or is blocked."""
        one = self[person]
        shown = one.is_visible
        return {"id": person, "name": one.name if shown else None, "handle": one.handle if shown else None}


def relations(
    db: Db,
    viewer: str | None,
    people: Iterable[str],
    session: ClientSession | None = None,
    *,
    require_member: bool = True,
) -> Relations:
    """Return the relations of these people to the viewer, in one round trip, or two inside a transaction.

    Lists call this after they have read the posts, so that a relation that ended before the read hides its posts.

    Raises: `UnknownUser` if `require_member` and the viewer is not a member.
    """
    wanted = sorted({*people, viewer} if viewer is not None else set(people))
    owner = VISITOR if viewer is None else viewer
    users: dict[str, Document] = {}
    edges: dict[str, Document] = {}
    for one in _users_and_edges(db, owner, wanted, session):
        if isinstance(one["_id"], dict):
            edges[one["_id"]["other"]] = one
        else:
            users[one["_id"]] = one
    found = Relations({one: rules.relation_of(users.get(one), edges.get(one)) for one in wanted})
    if require_member and viewer is not None and not found[viewer].is_member:
        raise unknown_user(viewer)
    return found


def _users_and_edges(db: Db, owner: str, people: list[str], session: ClientSession | None) -> Iterator[Document]:
    if session is None:
        yield from db["social.users"].aggregate(queries.PEOPLE(viewer=owner, people=people))
    else:  # a transaction does not allow `$unionWith`
        yield from queries.SOME_USERS.find(db, users=people, session=session)
        yield from queries.EDGES_TO.find(db, owner=owner, others=people, session=session)
