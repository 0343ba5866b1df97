"""Notices about posts and comments, for members who may see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pymongo.client_session import ClientSession

from squinney.mongo.schema import Db, Document
from squinney.social import queries, rules

ANY_MEMBER = {"name": "", "handle": ""}  # stands in for a user document that need not be read


def notify(
    db: Db,
    me: str,
    kinds: dict[str, str],
    post: Document,
    about: str,
    now: datetime,
    session: ClientSession,
    **more: Any,
) -> None:
    """Insert one notice for each member in `kinds`, except for `me`. Reading a notice checks visibility again."""
    notices = [
        {"_id": {"u": recipient, "t": now, "n": about}, "kind": kinds[recipient], "by": me, "post": post["_id"], **more}
        for recipient in _recipients(db, me, sorted(kinds.keys() - {me}), post, session)
    ]
    if notices:
        db["social.notices"].insert_many(notices, session=session)


def _recipients(db: Db, me: str, members: list[str], post: Document, session: ClientSession) -> list[str]:
    """Return the members who may see the post now, and have neither muted nor blocked `me`.

    Notices for all others would only be skipped on reading, and could push visible notices off the page.
    """
    if not members:
        return []
    ids = [{"owner": member, "other": other} for member in members for other in sorted({me, post["by"]})]
    edges = {tuple(edge["_id"].values()): edge for edge in queries.SOME_EDGES.find(db, ids=ids, session=session)}

    def may_be_notified(user: Document) -> bool:
        writer, author = (rules.relation_of(ANY_MEMBER, edges.get((user["_id"], other))) for other in (me, post["by"]))
        # guard: no notice is stored about a writer whom its reader blocked
        # guard: no notice is stored about a writer whom its reader muted
        is_hidden = user.get("left_at") or me in user["muted"] or not writer.is_visible
        # guard: no notice is stored about a post that is hidden from its reader
        return not is_hidden and rules.may_see(user["_id"], post, author)

    fields = {"muted": 1, "left_at": 1}
    users = queries.SOME_USERS.find(db, users=members, session=session, projection=fields)
    return [user["_id"] for user in users if may_be_notified(user)]
