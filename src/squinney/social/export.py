"""Export of a member's data: everything about the member, except what other members have not disclosed to them."""

from __future__ import annotations

from collections.abc import Iterator

from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import all_items
from squinney.social import queries
from squinney.social.members.edges import owner_part
from squinney.social.news.notices import list_notices

AT_ONCE = 100


def everything_of(db: Db, user: str) -> Iterator[tuple[str, Document]]:
    """Yield every document about a member, with the name of its type."""
    for member in queries.USER.find(db, user=user):
        yield "member", member
    for edge in queries.EDGES_OF.find(db, owner=user):
        known = _known_part(edge)
        # guard: an export does not show who blocked the member
        if len(known) > 1:
            yield "person", known
    for post in queries.POSTS_BY.find(db, user=user, projection={"comments": 0}):
        yield "post", post
    for comment in queries.COMMENTS_BY.find(db, user=user):
        yield "comment", comment
    # As the member reads them: a stored notice may quote a comment that the member may no longer see.
    for notice in all_items(lambda cursor: list_notices(db, user, cursor, AT_ONCE)):
        yield "notice", dict(notice)


def _known_part(edge: Document) -> Document:
    """Return what the edge's owner may know. Other members' circle names, and who blocked the owner, are secret."""
    followed = "follower_at" in edge and "blocked_by_at" not in edge
    return {**owner_part(edge), **({"follower_at": edge["follower_at"]} if followed else {})}
