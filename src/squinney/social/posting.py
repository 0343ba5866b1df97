"""Writing and deleting posts and comments, each in one transaction with its counts, notices and tasks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pymongo import DeleteOne
from pymongo.client_session import ClientSession

from squinney.clock import Clock
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.queue import Queue
from squinney.social import queries, rules
from squinney.social.documents import LAST_COMMENTS, PUBLIC
from squinney.social.errors import Blocked, UnknownPost
from squinney.social.graph import Pair
from squinney.social.members import get_member, mentioned, relations

ANY_MEMBER = {"name": "", "handle": ""}  # stands in for a user document that need not be read


def unknown_post(post: str) -> UnknownPost:
    """Return the error for a post that does not exist. A hidden post gives the same error, so that it stays secret."""
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
    """Insert a post, count it, notify the addressee and the mentioned members, and queue its delivery."""
    user = get_member(db, me, session)
    rules.check_own_circles(circles, user)
    if to is not None:
        get_member(db, to, session)
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
    count_action(db, user, "posts", now, session)
    db["social.posts"].insert_one(made, session=session)
    kinds = dict.fromkeys(made["mentions"], "mention") | ({to: "wall"} if to else {})
    _notify(db, me, kinds, made, made["_id"], now, session)
    if not made["merged"]:
        queue.put({"do": "deliver", "post": made["_id"]}, key=f"deliver-{made['_id']}", session=session)
    return made


def count_action(db: Db, user: Document, kind: str, now: datetime, session: ClientSession) -> None:
    """Count one action of the current minute. The write also conflicts with `leave`, so nobody posts while leaving.

    Raises: `TooFast`.
    """
    change = {"$set": rules.rate_update(user, kind, now)}
    db["social.users"].update_one(queries.USER(user=user["_id"]), change, session=session)


def write_comment(db: Db, me: str, post: str, text: str, clock: Clock, session: ClientSession) -> Document:
    """Insert a comment on a post that `me` may see, update the post, and notify its author and mentioned members."""
    user = get_member(db, me, session)
    found = visible_post(db, me, post, session)
    now = clock()
    made: Document = {
        "_id": new_id(),
        "post_id": post,
        "by": me,
        "text": text,
        "ts": now,
        "mentions": mentioned(db, text, session),
    }
    count_action(db, user, "comments", now, session)
    # Sorted by time, because clocks differ: the comment that arrives last need not be the latest.
    latest = {"$each": [_embedded(made)], "$sort": {"ts": 1, "id": 1}, "$slice": -LAST_COMMENTS}
    change = {"$push": {"comments": latest}, "$inc": {"comment_count": 1}}
    db["social.posts"].update_one(queries.POST(post=post), change, session=session)
    db["social.comments"].insert_one(made, session=session)
    kinds = {found["by"]: "comment"} | dict.fromkeys(made["mentions"], "mention")
    _notify(db, me, kinds, found, made["_id"], now, session, comment=made["_id"], text=text[:200])
    return made


def delete_post(db: Db, queue: Queue, me: str, post: str, session: ClientSession) -> None:
    """Delete a post by `me` or addressed to `me`, and queue the removal of its comments."""
    get_member(db, me, session)
    found = db["social.posts"].find_one(queries.POST(post=post), session=session)
    if found is None or me not in (found["by"], found["to"]):
        raise unknown_post(post)
    remove_post(db, queue, found, session)


def remove_post(db: Db, queue: Queue, found: Document, session: ClientSession) -> None:
    """Delete a post, and queue the removal of its comments."""
    db["social.posts"].delete_one(queries.POST(post=found["_id"]), session=session)
    if found["comment_count"]:
        queue.put({"do": "clear", "post": found["_id"]}, key=f"clear-{found['_id']}", session=session)


def delete_comment(db: Db, me: str, comment: str, session: ClientSession) -> None:
    """Delete a comment by `me` or on a post by `me`."""
    get_member(db, me, session)
    found = db["social.comments"].find_one(queries.COMMENT(comment=comment), session=session)
    post = found and db["social.posts"].find_one(queries.POST(post=found["post_id"]), session=session)
    if not found or not post or me not in (found["by"], post["by"]):
        raise UnknownPost(f"there is no comment {comment}", comment=comment)
    remove_comment(db, found, post, session)


def remove_comment(db: Db, found: Document, post: Document, session: ClientSession) -> None:
    """Delete a comment and its notices, and update the last comments and the count on its post."""
    where = {**queries.COMMENT(comment=found["_id"]), "post_id": found["post_id"], "ts": found["ts"]}
    db["social.comments"].delete_one(where, session=session)
    notified = {post["by"], *found.get("mentions", ())}
    # One delete per id: for an `$in` the server would scan the whole clustered collection.
    deletes = [DeleteOne({"_id": {"u": one, "t": found["ts"], "n": found["_id"]}}) for one in sorted(notified)]
    db["social.notices"].bulk_write(deletes, session=session)
    change = {"$set": {"comments": last_comments(db, post["_id"], session)}, "$inc": {"comment_count": -1}}
    db["social.posts"].update_one(queries.POST(post=post["_id"]), change, session=session)


def last_comments(db: Db, post: str, session: ClientSession | None = None) -> list[Document]:
    """Return the latest comments as the post embeds them, oldest first."""
    latest = queries.LATEST_COMMENTS.find(db, post=post, limit=LAST_COMMENTS, session=session)
    return [_embedded(one) for one in latest][::-1]


def visible_post(db: Db, viewer: str | None, post: str, session: ClientSession | None = None) -> Document:
    """Return a stored post that the viewer may see.

    Raises: `UnknownPost`, `UnknownUser`.
    """
    found = db["social.posts"].find_one(queries.POST(post=post), session=session)
    if found is None:
        raise unknown_post(post)
    author = relations(db, viewer, [found["by"]], session)[found["by"]]
    if not rules.may_see(viewer, found, author):
        raise unknown_post(post)
    return found


def _embedded(comment: Document) -> Document:
    return {"id": comment["_id"], "by": comment["by"], "text": comment["text"], "ts": comment["ts"]}


# ---- notices ----


def _notify(
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
        {"_id": {"u": one, "t": now, "n": about}, "kind": kinds[one], "by": me, "post": post["_id"], **more}
        for one in _recipients(db, me, sorted(kinds.keys() - {me}), post, session)
    ]
    if notices:
        db["social.notices"].insert_many(notices, session=session)


def _recipients(db: Db, me: str, members: list[str], post: Document, session: ClientSession) -> list[str]:
    """Return the members who may see the post now, and have neither muted nor blocked `me`.

    Notices for all others would only be skipped on reading, and could push visible notices off the page.
    """
    if not members:
        return []
    ids = [{"owner": one, "other": other} for one in members for other in sorted({me, post["by"]})]
    edges = {tuple(edge["_id"].values()): edge for edge in queries.SOME_EDGES.find(db, ids=ids, session=session)}

    def may_be_notified(user: Document) -> bool:
        writer, author = (rules.relation_of(ANY_MEMBER, edges.get((user["_id"], one))) for one in (me, post["by"]))
        is_hidden = user.get("left_at") or me in user["muted"] or not writer.is_visible
        return not is_hidden and rules.may_see(user["_id"], post, author)

    fields = {"muted": 1, "left_at": 1}
    users = queries.SOME_USERS.find(db, users=members, session=session, projection=fields)
    return [user["_id"] for user in users if may_be_notified(user)]
