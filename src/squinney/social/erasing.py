"""Erases a member who has left, or only disconnects the member from all others."""

from __future__ import annotations

from pymongo.client_session import ClientSession

from squinney.mongo.schema import Db, Document
from squinney.patterns.queue import Queue
from squinney.social import queries
from squinney.social.members.accounts import is_member
from squinney.social.members.circles import disconnect
from squinney.social.posts.comments import remove_comment
from squinney.social.posts.posts import remove_post
from squinney.transactions import in_transaction


def erase_some(db: Db, queue: Queue, user: str, limit: int) -> bool:
    """Delete up to `limit` documents of each kind, and at the end the member; return whether there is more to do.

    A user who has joined again after the erasure keeps everything: this task is a late repeat.
    """
    # guard, 2 lines: a user who joined again is not erased
    if is_member(db, user):
        return False
    posts = list(queries.POSTS_BY.find(db, user=user, limit=limit))
    for post in posts:
        _erase_post(db, queue, post)
    comments = list(queries.COMMENTS_BY.find(db, user=user, limit=limit))
    for comment in comments:
        _erase_comment(db, comment)
    more_edges = disconnect_some(db, user, limit)
    for name, query in (("social.news", queries.NEWS_OF), ("social.notices", queries.NOTICES)):
        db[name].delete_many(query(user=user))
    if more_edges or max(len(posts), len(comments)) == limit:
        return True
    has_left = {**queries.USER(user=user), "left_at": {"$ne": None}}
    member = db["social.users"].find_one(has_left, {"handle": 1})
    if member is not None:
        db["social.handles"].delete_one({**queries.HANDLE(handle=member["handle"]), "user": user})
        db["social.users"].delete_one(has_left)
    return False


def disconnect_some(db: Db, user: str, limit: int) -> bool:
    """Delete up to `limit` edges of a user who has left, in both directions; return whether there is more to do."""
    edges = list(queries.EDGES_OF.find(db, owner=user, limit=limit, projection={"_id": 1}))
    for edge in edges:
        _erase_edge(db, user, edge["_id"]["other"])
    return len(edges) == limit and not is_member(db, user)


def _erase_post(db: Db, queue: Queue, post: Document) -> None:
    def work(session: ClientSession) -> None:
        current = queries.POST.find_one(db, post=post["_id"], session=session)
        if current is not None:
            remove_post(db, queue, current, session)

    in_transaction(db, work)


def _erase_comment(db: Db, comment: Document) -> None:
    def work(session: ClientSession) -> None:
        post = queries.POST.find_one(db, post=comment["post_id"], session=session)
        again = queries.COMMENT.find_one(db, comment=comment["_id"], session=session)
        if again is not None and post is not None:
            remove_comment(db, again, post, session)
        elif again is not None:
            db["social.comments"].delete_one({"_id": again["_id"], "post_id": again["post_id"]}, session=session)

    in_transaction(db, work)


def _erase_edge(db: Db, user: str, other: str) -> None:
    def work(session: ClientSession) -> None:
        # guard: a user who joined again keeps their edges
        if not is_member(db, user, session):
            disconnect(db, user, other, session)

    in_transaction(db, work)
