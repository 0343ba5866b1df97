"""Writing and deleting posts, each in one transaction with its counts, notices and tasks; and what a viewer sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pymongo.client_session import ClientSession

from squinney.clock import Clock
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.queue import Queue
from squinney.social import queries, rules
from squinney.social.documents import PUBLIC, Comment, Post
from squinney.social.errors import UnknownPost
from squinney.social.members.accounts import count_action, get_member, mentioned
from squinney.social.members.edges import Pair
from squinney.social.members.relations import Relations, relations
from squinney.social.posts.notify import notify


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
        # guard: members cannot write to someone they blocked
        Pair(db, me, to, session).require_unblocked()
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
    notify(db, me, kinds, made, made["_id"], now, session)
    if not made["merged"]:
        queue.put({"do": "deliver", "post": made["_id"]}, key=f"deliver-{made['_id']}", session=session)
    return made


def delete_post(db: Db, queue: Queue, me: str, post: str, session: ClientSession) -> None:
    """Delete a post by `me` or addressed to `me`, and queue the removal of its comments."""
    get_member(db, me, session)
    stored = queries.POST.find_one(db, post=post, session=session)
    # guard: members cannot delete posts by others
    if stored is None or me not in (stored["by"], stored["to"]):
        raise unknown_post(post)
    remove_post(db, queue, stored, session)


def remove_post(db: Db, queue: Queue, stored: Document, session: ClientSession) -> None:
    """Delete a post, and queue the removal of its comments."""
    db["social.posts"].delete_one(queries.POST(post=stored["_id"]), session=session)
    if stored["comment_count"]:
        queue.put({"do": "clear", "post": stored["_id"]}, key=f"clear-{stored['_id']}", session=session)


# ---- as one viewer may see them now ----


def unknown_post(post: str) -> UnknownPost:
    """Return the error for a post that does not exist. A hidden post gives the same error, so that it stays secret."""
    return UnknownPost(f"there is no post {post}", post=post)


def visible_post(db: Db, viewer: str | None, post: str, session: ClientSession | None = None) -> Document:
    """Return a stored post that the viewer may see.

    Raises: `UnknownPost`, `UnknownUser`.
    """
    stored = queries.POST.find_one(db, post=post, session=session)
    if stored is None:
        raise unknown_post(post)
    author = relations(db, viewer, [stored["by"]], session)[stored["by"]]
    if not rules.may_see(viewer, stored, author):
        raise unknown_post(post)
    return stored


def read_post(db: Db, viewer: str | None, post: str) -> Post:
    """Return one post that the viewer may see."""
    stored = visible_post(db, viewer, post)
    return as_post(stored, viewer, relations(db, viewer, people_of([stored])))


def as_author(db: Db, post: Document) -> Post:
    """Return a new post as its author sees it, even if the author has left in the meantime."""
    return as_post(post, post["by"], relations(db, post["by"], people_of([post]), require_member=False))


def people_of(posts: Iterable[Document]) -> Sequence[str]:
    """Return the ids of all members whose names these posts show."""
    people = []
    for post in posts:
        if "by" in post:
            named = [post["to"]] if post["to"] else []
            people += [post["by"], *named, *post["mentions"], *(comment["by"] for comment in post["comments"])]
    return people


def as_post(post: Document, viewer: str | None, people: Relations) -> Post:
    # guard: a post shows no comments by hidden members
    shown = [comment for comment in post["comments"] if people[comment["by"]].is_visible]
    return {
        "id": post["_id"],
        "by": people.person(post["by"]),
        "to": people.person(post["to"]) if post["to"] else None,
        "audience": rules.audience_label(post),
        "circles": post["circles"] if viewer == post["by"] else [],
        "type": post["type"],
        "ts": post["ts"],
        "detail": post["detail"],
        # guard: mentions of hidden members are not shown
        "mentions": [people.person(mention) for mention in post["mentions"] if people[mention].is_visible],
        "comments": [as_comment(comment, people) for comment in shown],
        "comment_count": post["comment_count"],
    }


def as_comment(comment: Document, people: Relations) -> Comment:
    return {
        "id": comment["id"],
        "by": people.person(comment["by"]),
        "text": comment["text"],
        "ts": comment["ts"],
    }
