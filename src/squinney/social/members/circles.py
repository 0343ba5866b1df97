"""Circles and blocks: changing them, and listing the people in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from pymongo.client_session import ClientSession

from squinney import checks
from squinney.clock import Clock
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.patterns.queue import Queue
from squinney.social import queries, rules
from squinney.social.documents import Circled
from squinney.social.members.accounts import get_member
from squinney.social.members.edges import (
    Pair,
    circle_names,
    mirrored,
    only_blocks,
    resized,
    with_circle,
    without_circle,
)
from squinney.social.members.relations import relations


def put_into_circle(db: Db, queue: Queue, me: str, other: str, name: str, clock: Clock, session: ClientSession) -> None:
    """Put `other` into a circle of `me`, and notify `other` if this is the first such circle."""
    user, theirs = get_member(db, me, session), get_member(db, other, session)
    pair = Pair(db, me, other, session)
    # guard: members cannot circle someone who blocked them
    pair.require_unblocked()
    if name in circle_names(pair.edge):
        return
    now = clock()
    first = "circled_at" not in pair.edge
    if first:
        rules.check_limit(user["circled"], rules.MAX_CIRCLED, "people in circles")
    change: Document = {
        "$set": {"circles": resized(user["circles"], name, 1), **rules.rate_update(user, "circles", now)},
        "$inc": {"circled": int(first)},
    }
    # guard: new followers of a merged author get merged posts
    if "merging" in theirs:
        change["$addToSet"] = {"merged": other}
    # Concurrent changes by the same member conflict on this write, so the server runs them one after the other.
    db["social.users"].update_one(queries.USER(user=me), change, session=session)
    pair.write(with_circle(pair.edge, name, now))
    older = _older_posts(db, me, other, rules.relation_of(theirs, pair.edge), now, session) if first else []
    # guard: a new follower catches up with the posts that were delivered in the meantime
    catch_up_later(queue, [(me, other)], now, session, older=older)
    if first:
        notice = {"_id": {"u": other, "t": now, "n": new_id()}, "kind": "circled", "by": me}
        db["social.notices"].insert_one(notice, session=session)


def _older_posts(
    db: Db, me: str, other: str, author: rules.Relation, now: datetime, session: ClientSession
) -> list[Document]:
    """Return the id and time of the last posts by `other` that `me` may see."""
    # guard: a follow brings posts that the follower may see
    audiences = rules.visible_audiences(author)
    posts = queries.OLDER_POSTS.find(
        db,
        author=other,
        reader=me,
        audiences=audiences,
        before=now,
        projection={"ts": 1},
        limit=rules.MAX_OLDER_POSTS,
        session=session,
    )
    return list(posts)


def catch_up_later(
    queue: Queue,
    pairs: Sequence[tuple[str, str]],
    since: datetime,
    session: ClientSession,
    older: Sequence[Document] = (),
) -> None:
    """Queue the delivery of posts that were delivered after `since`, but before this transaction was committed.

    `older` are posts that the follow of the only pair brings into the news.
    """
    body = {"do": "catch-up", "pairs": [list(pair) for pair in pairs], "since": since, "older": list(older)}
    queue.put(body, session=session)


def take_out_of_circle(db: Db, me: str, other: str, name: str, session: ClientSession) -> None:
    """Take `other` out of a circle of `me`. If it was the last one, delete the notice about the first."""
    user = get_member(db, me, session)
    pair = Pair(db, me, other, session)
    if name not in circle_names(pair.edge):
        return
    after = without_circle(pair.edge, name)
    last = "circled_at" not in after
    change: Document = {
        "$set": {"circles": resized(user["circles"], name, -1)},
        "$inc": {"circled": -int(last)},
    }
    if last:
        change["$pull"] = {"merged": other}
        _delete_notice(db, pair.edge, session)
    db["social.users"].update_one(queries.USER(user=me), change, session=session)
    pair.write(after)


def _delete_notice(db: Db, edge: Document, session: ClientSession) -> None:
    """Delete the notice that the edge's owner follows the other member.

    Otherwise a user who circles and uncircles someone repeatedly could push their other notices off the page.
    """
    me, other = edge["_id"]["owner"], edge["_id"]["other"]
    notice = queries.NOTICES_AT(user=other, at=edge["circled_at"])
    # guard: uncircling deletes the notice about the follow
    db["social.notices"].delete_many({**notice, "kind": "circled", "by": me}, session=session)


def block_member(db: Db, me: str, other: str, now: datetime, session: ClientSession) -> None:
    """Hide both members from each other, and take each out of the circles of the other.

    Whether `other` exists makes no difference, so that nobody learns from it who has blocked them. Circles would tell
    it too: by a size that does not match the list of people.
    """
    user = get_member(db, me, session)
    pair = Pair(db, me, other, session)
    if "blocked_at" in pair.edge:
        return
    rules.check_limit(user["blocks"], rules.MAX_BLOCKS, "blocked people")
    db["social.users"].update_one(queries.USER(user=me), {"$inc": {"blocks": 1}}, session=session)
    # guard: a block ends circles in both directions
    end_circles(db, pair, session)
    pair.write({**only_blocks(pair.edge), "blocked_at": now})


def end_circles(db: Db, pair: Pair, session: ClientSession) -> None:
    """Remove the two members from each other's counts and lists, and the notices about it. The edge is not written."""
    for edge in (pair.edge, mirrored(pair.edge)):
        if "circled_at" in edge:
            _uncount(db, edge, session)
            _delete_notice(db, edge, session)


def unblock_member(db: Db, me: str, other: str, session: ClientSession) -> None:
    """Lift the block of `other` by `me`. A block of `me` by `other` stays."""
    get_member(db, me, session)
    pair = Pair(db, me, other, session)
    if "blocked_at" not in pair.edge:
        return
    db["social.users"].update_one(queries.USER(user=me), {"$inc": {"blocks": -1}}, session=session)
    pair.write({name: value for name, value in pair.edge.items() if name != "blocked_at"})


# ---- a member who has left ----


def disconnect(db: Db, me: str, other: str, session: ClientSession) -> None:
    """Delete the edge between two members, and update both members' counts: one of them has left."""
    pair = Pair(db, me, other, session)
    for edge in (pair.edge, mirrored(pair.edge)):
        _uncount(db, edge, session)
        change = {"$inc": {"blocks": -int("blocked_at" in edge)}, "$pull": {"muted": edge["_id"]["other"]}}
        db["social.users"].update_one(queries.USER(user=edge["_id"]["owner"]), change, session=session)
    pair.write({"_id": pair.edge["_id"]})


def _uncount(db: Db, edge: Document, session: ClientSession) -> None:
    """Remove the other member from the circles, counts and merged authors in the owner's user document."""
    owner, other = edge["_id"]["owner"], edge["_id"]["other"]
    user = queries.USER.find_one(db, user=owner, session=session)
    if user is None:
        return
    circles = user["circles"]
    for name in circle_names(edge):
        circles = resized(circles, name, -1)
    change: Document = {
        "$set": {"circles": circles},
        "$inc": {"circled": -int("circled_at" in edge)},
        "$pull": {"merged": other},
    }
    db["social.users"].update_one(queries.USER(user=owner), change, session=session)


# ---- lists ----


def list_related(db: Db, query: Query, since: str, me: str, cursor: str | None, limit: int) -> Page[Circled]:
    """Return a page of the people whom `query` finds, latest first. `since` is the field with the time.

    The list of blocked people has an entry for each block; only people whom the reader can know have a name.
    """
    checks.identifier(me, "me")
    edges = page(db, query, cursor=cursor, limit=limit, owner=me)
    people = relations(db, me, [edge["_id"]["other"] for edge in edges.items])
    with_blocked = since == "blocked_at"
    items: list[Circled] = []
    for edge in edges.items:
        other = people[edge["_id"]["other"]]
        if with_blocked or other.is_visible:
            shown = {"id": edge["_id"]["other"], "name": other.name, "handle": other.handle}
            items.append(cast(Circled, {**shown, "circles": circle_names(edge), "at": edge[since]}))
    return Page(items, edges.next)
