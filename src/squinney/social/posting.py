"""Posts and comments: each in one transaction with what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from pymongo import DeleteOne
from pymongo.client_session import ClientSession

from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.queue import Queue
from squinney.social import queries, rules
from squinney.social.documents import LAST_COMMENTS, PUBLIC
from squinney.social.errors import Blocked, UnknownPost
from squinney.social.graph import Pair
from squinney.social.members import member, mentioned, relations

Clock = Callable[[], datetime]
SOMEBODY = {"name": "", "handle": ""}  # who is here, whatever their name


def unknown(post: str) -> UnknownPost:
    """The same whether it is not there or not for this viewer: that is nobody's business."""
    return UnknownPost(f"there is no post {post}", post=post)


def write_post(
    db: Db,
    queue: Queue,
    me: str,
    kind: str,
    detail: Document,
    circles: list[str],
    to: str | None,
    clock: Clock,
    session: ClientSession,
) -> Document:
    """Write a post, count it, tell those whom it mentions or is addressed to, and have it delivered."""
    user = member(db, me, session)
    rules.known_circles(circles, user)
    if to is not None:
        member(db, to, session)
        if Pair(db, me, to, session).is_blocked:
            raise Blocked("one of you has blocked the other", user=to)
    now = clock()
    made: Document = {
        "_id": new_id(),
        "by": me,
        "to": to,
        "circles": circles,
        "type": kind,
        "ts": now,
        "detail": detail,
        "mentions": mentioned(db, detail.get("text", ""), session),
        "merged": PUBLIC in circles and user.get("merging") is True,
        "comments": [],
        "comment_count": 0,
    }
    count(db, user, "posts", now, session)
    db["social.posts"].insert_one(made, session=session)
    notices = dict.fromkeys(made["mentions"], "mention") | ({to: "wall"} if to else {})
    _tell(db, me, notices, made, made["_id"], now, session)
    if not made["merged"]:
        queue.put({"do": "deliver", "post": made["_id"]}, key=f"deliver-{made['_id']}", session=session)
    return made


def count(db: Db, user: Document, kind: str, now: datetime, session: ClientSession) -> None:
    """One more of this minute. This write also keeps a post from coming to be while its author leaves.

    Raises: `TooFast`.
    """
    change = {"$set": rules.counted(user, kind, now)}
    db["social.users"].update_one(queries.USER(user=user["_id"]), change, session=session)


def write_comment(db: Db, me: str, post: str, text: str, clock: Clock, session: ClientSession) -> Document:
    """Write a comment below a post that one may see."""
    user = member(db, me, session)
    found = visible(db, me, post, session)
    now = clock()
    made: Document = {
        "_id": new_id(),
        "post_id": post,
        "by": me,
        "text": text,
        "ts": now,
        "mentions": mentioned(db, text, session),
    }
    count(db, user, "comments", now, session)
    # Sorted, because clocks differ: the one that comes last need not be the latest.
    latest = {"$each": [_short(made)], "$sort": {"ts": 1, "id": 1}, "$slice": -LAST_COMMENTS}
    change = {"$push": {"comments": latest}, "$inc": {"comment_count": 1}}
    db["social.posts"].update_one(queries.POST(post=post), change, session=session)
    db["social.comments"].insert_one(made, session=session)
    notices = {found["by"]: "comment"} | dict.fromkeys(made["mentions"], "mention")
    _tell(db, me, notices, found, made["_id"], now, session, comment=made["_id"], text=text[:200])
    return made


def delete_post(db: Db, queue: Queue, me: str, post: str, session: ClientSession) -> None:
    """Remove a post of mine, or one to me; its comments follow."""
    member(db, me, session)
    found = db["social.posts"].find_one(queries.POST(post=post), session=session)
    if found is None or me not in (found["by"], found["to"]):
        raise unknown(post)
    remove_post(db, queue, found, session)


def remove_post(db: Db, queue: Queue, found: Document, session: ClientSession) -> None:
    """Remove a post, and have its comments removed."""
    db["social.posts"].delete_one(queries.POST(post=found["_id"]), session=session)
    if found["comment_count"]:
        queue.put({"do": "clear", "post": found["_id"]}, key=f"clear-{found['_id']}", session=session)


def delete_comment(db: Db, me: str, comment: str, session: ClientSession) -> None:
    """Remove a comment of mine, or one below a post of mine."""
    member(db, me, session)
    found = db["social.comments"].find_one(queries.COMMENT(comment=comment), session=session)
    post = found and db["social.posts"].find_one(queries.POST(post=found["post_id"]), session=session)
    if not found or not post or me not in (found["by"], post["by"]):
        raise UnknownPost(f"there is no comment {comment}", comment=comment)
    remove_comment(db, found, post, session)


def remove_comment(db: Db, found: Document, post: Document, session: ClientSession) -> None:
    """Remove a comment, its notices, and its place on the post."""
    where = {**queries.COMMENT(comment=found["_id"]), "post_id": found["post_id"], "ts": found["ts"]}
    db["social.comments"].delete_one(where, session=session)
    told = {post["by"], *found.get("mentions", ())}
    # One by one: for a list of ids the server reads the whole of a clustered collection.
    deletes = [DeleteOne({"_id": {"u": one, "t": found["ts"], "n": found["_id"]}}) for one in sorted(told)]
    db["social.notices"].bulk_write(deletes, session=session)
    change = {"$set": {"comments": last_comments(db, post["_id"], session)}, "$inc": {"comment_count": -1}}
    db["social.posts"].update_one(queries.POST(post=post["_id"]), change, session=session)


def last_comments(db: Db, post: str, session: ClientSession | None = None) -> list[Document]:
    """Those that the post itself carries, oldest first."""
    latest = queries.LATEST_COMMENTS.find(db, post=post, limit=LAST_COMMENTS, session=session)
    return [_short(one) for one in latest][::-1]


def visible(db: Db, viewer: str | None, post: str, session: ClientSession | None = None) -> Document:
    """A post that the viewer may see.

    Raises: `UnknownPost`, `UnknownUser`.
    """
    found = db["social.posts"].find_one(queries.POST(post=post), session=session)
    if found is None:
        raise unknown(post)
    author = relations(db, viewer, [found["by"]], session)[found["by"]]
    if not rules.may_see(viewer, found, author):
        raise unknown(post)
    return found


def _short(comment: Document) -> Document:
    return {"id": comment["_id"], "by": comment["by"], "text": comment["text"], "ts": comment["ts"]}


def _tell(
    db: Db,
    me: str,
    whom: dict[str, str],
    post: Document,
    about: str,
    now: datetime,
    session: ClientSession,
    **more: Any,
) -> None:
    """One notice for each, never for oneself. Whether it may still be seen is decided when it is read."""
    notices = [
        {"_id": {"u": one, "t": now, "n": about}, "kind": whom[one], "by": me, "post": post["_id"], **more}
        for one in _told(db, me, sorted(whom.keys() - {me}), post, session)
    ]
    if notices:
        db["social.notices"].insert_many(notices, session=session)


def _told(db: Db, me: str, whom: list[str], post: Document, session: ClientSession) -> list[str]:
    """Those who may see the post now, and have set nobody apart who writes: notices that can only be skipped would bury
    what somebody is told."""
    if not whom:
        return []
    ids = [{"owner": one, "other": other} for one in whom for other in sorted({me, post["by"]})]
    edges = {tuple(edge["_id"].values()): edge for edge in queries.SOME_EDGES.find(db, ids=ids, session=session)}

    def may_be_told(user: Document) -> bool:
        writer, author = (rules.relation_of(SOMEBODY, edges.get((user["_id"], one))) for one in (me, post["by"]))
        is_apart = user.get("left_at") or me in user["muted"] or not writer.shows
        return not is_apart and rules.may_see(user["_id"], post, author)

    fields = {"muted": 1, "left_at": 1}
    users = queries.SOME_USERS.find(db, users=whom, session=session, projection=fields)
    return [user["_id"] for user in users if may_be_told(user)]
