"""What is kept of a person, to take along: what they may see of it, and nothing that others keep to themselves."""

from __future__ import annotations

from collections.abc import Iterator

from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import all_items
from squinney.social import queries, reading
from squinney.social.graph import own_part

AT_ONCE = 100


def everything_of(db: Db, user: str) -> Iterator[tuple[str, Document]]:
    """Every document about a person, with the name of what it is."""
    for one in db["social.users"].find(queries.USER(user=user)):
        yield "member", one
    for edge in queries.EDGES_OF.find(db, owner=user):
        mine = _own_side(edge)
        if len(mine) > 1:
            yield "person", mine
    for post in queries.POSTS_BY.find(db, user=user, projection={"comments": 0}):
        yield "post", post
    for comment in queries.COMMENTS_BY.find(db, user=user):
        yield "comment", comment
    yield from (("notice", notice) for notice in _notices(db, user))


def _own_side(edge: Document) -> Document:
    """Which circles others have put them in, and who has blocked them, is others' knowledge."""
    told = {"follower_at": edge["follower_at"]} if "follower_at" in edge and "blocked_by_at" not in edge else {}
    return {**own_part(edge), **told}


def _notices(db: Db, user: str) -> Iterator[Document]:
    """As they read them: a notice of what they may not see says who wrote what."""
    found = all_items(lambda cursor: reading.notices(db, user, cursor, AT_ONCE))
    return (dict(notice) for notice in found)
