"""Writing, listing and deleting comments. A post embeds its last comments and their count."""

from __future__ import annotations

from pymongo import DeleteOne
from pymongo.client_session import ClientSession

from squinney.clock import Clock
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, filtered_page, page
from squinney.social import queries
from squinney.social.documents import LAST_COMMENTS, Comment
from squinney.social.errors import UnknownPost
from squinney.social.members.accounts import count_action, get_member, mentioned
from squinney.social.members.relations import Relations, relations
from squinney.social.posts.notify import notify
from squinney.social.posts.posts import as_comment, visible_post
from squinney.social.rules import MAX_ITEMS


def write_comment(db: Db, me: str, post: str, text: str, clock: Clock, session: ClientSession) -> Document:
    """Insert a comment on a post that `me` may see, update the post, and notify its author and mentioned members."""
    user = get_member(db, me, session)
    about = visible_post(db, me, post, session)
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
    kinds = {about["by"]: "comment"} | dict.fromkeys(made["mentions"], "mention")
    notify(db, me, kinds, about, made["_id"], now, session, comment=made["_id"], text=text[:200])
    return made


def delete_comment(db: Db, me: str, comment: str, session: ClientSession) -> None:
    """Delete a comment by `me` or on a post by `me`."""
    get_member(db, me, session)
    stored = queries.COMMENT.find_one(db, comment=comment, session=session)
    post = stored and queries.POST.find_one(db, post=stored["post_id"], session=session)
    # guard: members cannot delete comments by others
    if not stored or not post or me not in (stored["by"], post["by"]):
        raise UnknownPost(f"there is no comment {comment}", comment=comment)
    remove_comment(db, stored, post, session)


def remove_comment(db: Db, stored: Document, post: Document, session: ClientSession) -> None:
    """Delete a comment and its notices, and update the last comments and the count on its post."""
    where = {**queries.COMMENT(comment=stored["_id"]), "post_id": stored["post_id"], "ts": stored["ts"]}
    db["social.comments"].delete_one(where, session=session)
    notified = {post["by"], *stored.get("mentions", ())}
    # One delete per id: for an `$in` the server would scan the whole clustered collection.
    deletes = [DeleteOne({"_id": {"u": member, "t": stored["ts"], "n": stored["_id"]}}) for member in sorted(notified)]
    db["social.notices"].bulk_write(deletes, session=session)
    change = {"$set": {"comments": last_comments(db, post["_id"], session)}, "$inc": {"comment_count": -1}}
    db["social.posts"].update_one(queries.POST(post=post["_id"]), change, session=session)


def last_comments(db: Db, post: str, session: ClientSession | None = None) -> list[Document]:
    """Return the latest comments as the post embeds them, oldest first."""
    latest = queries.LATEST_COMMENTS.find(db, post=post, limit=LAST_COMMENTS, session=session)
    return [_embedded(comment) for comment in latest][::-1]


def _embedded(comment: Document) -> Document:
    return {"id": comment["_id"], "by": comment["by"], "text": comment["text"], "ts": comment["ts"]}


COMMENTS_ORDER = [("ts", 1), ("_id", 1)]


def list_comments(db: Db, viewer: str | None, post: str, cursor: str | None, limit: int) -> Page[Comment]:
    """Return a page of a post's comments, oldest first, without comments by people who are hidden from the viewer."""
    visible_post(db, viewer, post)
    seen: dict[str, Relations] = {}
    hidden: set[str] = set()

    def read(cursor: str | None) -> Page[Document]:
        # guard: comments by hidden members are skipped
        return page(db, queries.COMMENTS, cursor=cursor, limit=limit, max_limit=MAX_ITEMS, post=post, without=hidden)

    def keep(comments: list[Document]) -> list[Document]:
        people = relations(db, viewer, [comment["by"] for comment in comments])
        seen.update({comment["_id"]: people for comment in comments})
        hidden.update(comment["by"] for comment in comments if not people[comment["by"]].is_visible)
        # guard: comments by hidden members are not listed
        return [comment for comment in comments if people[comment["by"]].is_visible]

    shown = filtered_page(read, keep, COMMENTS_ORDER, cursor, limit)
    return shown.map(lambda comment: as_comment({**comment, "id": comment["_id"]}, seen[comment["_id"]]))
