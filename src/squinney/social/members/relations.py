"""How members relate to one viewer now: who is visible, and under which name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pymongo.client_session import ClientSession

from squinney.mongo.schema import Db, Document
from squinney.social import queries, rules
from squinney.social.documents import Person
from squinney.social.members.accounts import unknown_user
from squinney.social.rules import STRANGER, Relation

VISITOR = ""  # the id of a viewer who is not a member; such a viewer has no edges


class Relations:
    """Relations to one viewer by member id. An unknown id is a stranger, who is never visible."""

    def __init__(self, by_id: Mapping[str, Relation]) -> None:
        self._found = by_id

    def __getitem__(self, person: str) -> Relation:
        return self._found.get(person, STRANGER)

    def person(self, person: str) -> Person:
        """Return the member as the viewer sees them, without a name if the member has left or is blocked."""
        relation = self[person]
        shown = relation.is_visible
        return {"id": person, "name": relation.name if shown else None, "handle": relation.handle if shown else None}


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
    for edge in _users_and_edges(db, owner, wanted, session):
        if isinstance(edge["_id"], dict):
            edges[edge["_id"]["other"]] = edge
        else:
            users[edge["_id"]] = edge
    related = Relations({person: rules.relation_of(users.get(person), edges.get(person)) for person in wanted})
    if require_member and viewer is not None and not related[viewer].is_member:
        raise unknown_user(viewer)
    return related


def _users_and_edges(db: Db, owner: str, people: list[str], session: ClientSession | None) -> Iterator[Document]:
    if session is None:
        yield from queries.PEOPLE.run(db, viewer=owner, people=people)
    else:  # a transaction does not allow `$unionWith`
        yield from queries.SOME_USERS.find(db, users=people, session=session)
        yield from queries.EDGES_TO.find(db, owner=owner, others=people, session=session)
