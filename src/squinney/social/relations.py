"""What people are to a viewer now, read after what they wrote: so nothing is shown that was forbidden before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pymongo.client_session import ClientSession

from squinney.mongo.schema import Db, Document
from squinney.social import queries, rules
from squinney.social.documents import Person
from squinney.social.errors import UnknownUser
from squinney.social.rules import STRANGER, Relation

NOBODY = ""  # whose edges a visitor has


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
