"""Lists of posts, comments and notices for one viewer.

A list first reads the entries and their posts, then the viewer's current relations to the people on the screen, and
then decides what to show. So each page takes two round trips, and nothing is shown that was hidden before the read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from squinney import checks
from squinney.errors import Invalid
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, cursor_keys, filtered_page, page, page_from
from squinney.social import queries, rules
from squinney.social.documents import Comment, Notice, Post
from squinney.social.members import Relations, relations, unknown_user
from squinney.social.posting import visible_post
from squinney.social.queries import Position

MOST_ITEMS = 100
ORDER = [("ts", -1), ("_id", -1)]
COMMENTS_ORDER = [("ts", 1), ("_id", 1)]
PostFilter = Callable[[Document, Relations], bool]


def news(db: Db, me: str, cursor: str | None, limit: int) -> Page[Post]:
    """Return a page of a member's news, newest first.

    Posts by muted or blocked users, and by users who removed the reader from their circles, are skipped on the server
    once such an author is found, so that one very active author cannot push all other posts off the page.
    """
    hidden: set[str] = set()

    def read(cursor: str | None) -> Page[Document]:
        found = queries.NEWS(user=me, limit=limit + 1, position=position_of(cursor), without=hidden)
        reader = _reader(db, found, me)
        hidden.update(reader["muted"])
        return page_from(_newest_first(reader)[: limit + 1], ORDER, limit=limit)

    def keep(post: Document, people: Relations) -> bool:
        if "by" in post and not people[post["by"]].can_be_news:
            hidden.add(post["by"])
        return "by" in post and post["by"] not in hidden and rules.is_news(me, post, people[post["by"]])

    return _posts(db, me, read, keep, cursor, limit)


def _newest_first(reader: Document) -> list[Document]:
    """Return delivered and merged posts, newest first. Of a deleted post, only its id and time are left."""
    found = {entry["_id"]["p"]: {"_id": entry["_id"]["p"], "ts": entry["_id"]["t"]} for entry in reader["entries"]}
    found.update({post["_id"]: post for post in (*reader["newest"], *reader["posts"])})
    return sorted(found.values(), key=lambda post: (post["ts"], post["_id"]), reverse=True)


def wall(db: Db, viewer: str | None, owner: str, cursor: str | None, limit: int) -> Page[Post]:
    """Return a page of the posts by or to the owner. The owner's own view omits posts by people they do not follow."""

    def may_see(post: Document, people: Relations) -> bool:
        return people[owner].is_visible and rules.may_see(viewer, post, people[post["by"]])

    def is_omitted(post: Document, people: Relations) -> bool:
        return viewer == owner and post["by"] != owner and people[post["by"]].follows_since is None

    return _owner_posts(db, queries.WALL, viewer, owner, may_see, cursor, limit, is_omitted)


def incoming(db: Db, me: str, cursor: str | None, limit: int) -> Page[Post]:
    """Return a page of the posts that are addressed to the member."""

    def may_see(post: Document, people: Relations) -> bool:
        return rules.may_see(me, post, people[post["by"]])

    return _owner_posts(db, queries.INCOMING, me, me, may_see, cursor, limit)


def _owner_posts(
    db: Db,
    query: Query,
    viewer: str | None,
    owner: str,
    may_see: PostFilter,
    cursor: str | None,
    limit: int,
    is_omitted: PostFilter = lambda post, people: False,
) -> Page[Post]:
    """Return a page of the owner's list that `query` finds.

    Once a post by an author is found to be hidden from the viewer, the server skips the author's hidden posts, so that
    one very active author cannot push all other posts off the page.
    """
    hidden: dict[str, Document] = {}

    def read(cursor: str | None) -> Page[Document]:
        position = position_of(cursor)
        found = query.find(db, limit=limit + 1, owner=owner, position=position, hidden=list(hidden.values()))
        return page_from(list(found), ORDER, limit=limit)

    def keep(post: Document, people: Relations) -> bool:
        author = people[post["by"]]
        if is_omitted(post, people) or not author.is_visible:
            hidden[post["by"]] = queries.by_authors([post["by"]])
            return False
        if not may_see(post, people):
            seen = rules.visible_audiences(author)
            hidden[post["by"]] = {"by": post["by"], "to": {"$ne": viewer}, "circles": {"$nin": seen}}
            return False
        return True

    return _posts(db, viewer, read, keep, cursor, limit, owner)


def get_post(db: Db, viewer: str | None, post: str) -> Post:
    """Return one post that the viewer may see."""
    found = visible_post(db, viewer, post)
    return _as_post(found, viewer, relations(db, viewer, _people_of([found])))


def as_author(db: Db, post: Document) -> Post:
    """Return a new post as its author sees it, even if the author has left in the meantime."""
    return _as_post(post, post["by"], relations(db, post["by"], _people_of([post]), require_member=False))


def comments(db: Db, viewer: str | None, post: str, cursor: str | None, limit: int) -> Page[Comment]:
    """Return a page of a post's comments, oldest first, without comments by people who are hidden from the viewer."""
    visible_post(db, viewer, post)
    seen: dict[str, Relations] = {}
    hidden: set[str] = set()

    def read(cursor: str | None) -> Page[Document]:
        return page(db, queries.COMMENTS, cursor=cursor, limit=limit, most=MOST_ITEMS, post=post, without=hidden)

    def keep(found: list[Document]) -> list[Document]:
        people = relations(db, viewer, [one["by"] for one in found])
        seen.update({one["_id"]: people for one in found})
        hidden.update(one["by"] for one in found if not people[one["by"]].is_visible)
        return [one for one in found if people[one["by"]].is_visible]

    shown = filtered_page(read, keep, COMMENTS_ORDER, cursor, limit)
    return shown.map(lambda one: _as_comment({**one, "id": one["_id"]}, seen[one["_id"]]))


def notices(db: Db, me: str, cursor: str | None, limit: int, since: datetime | None = None) -> Page[Notice]:
    """Return a page of a member's notices that the member may still see, newest first, and none older than `since`."""
    seen: dict[str, tuple[Relations, datetime]] = {}
    hidden: set[str] = set()

    def read(cursor: str | None) -> Page[Document]:
        position = position_of(cursor)
        stages = queries.NOTICES_WITH_POSTS(user=me, limit=limit + 1, position=position, since=since, without=hidden)
        reader = _reader(db, stages, me)
        posts = {post["_id"]: post for post in reader["posts"]}
        people = relations(db, me, [one["by"] for one in (*reader["entries"], *reader["posts"])])
        found = [_with_post(one, posts, reader["muted"]) for one in reader["entries"]]
        hidden.update(one["by"] for one in found if one["muted"] or not people[one["by"]].is_visible)
        seen.update({one["_id"]: (people, reader["seen_at"]) for one in found})
        return page_from(found, ORDER, limit=limit)

    def keep(found: list[Document]) -> list[Document]:
        return [one for one in found if _may_see_notice(me, one, seen[one["_id"]][0])]

    shown = filtered_page(read, keep, ORDER, cursor, limit)
    return shown.map(lambda one: _as_notice(one, *seen[one["_id"]]))


def _with_post(entry: Document, posts: Mapping[str, Document], muted: Sequence[str]) -> Document:
    about = posts.get(entry.get("post", ""))
    return {**entry, "ts": entry["_id"]["t"], "_id": entry["_id"]["n"], "about": about, "muted": entry["by"] in muted}


def _may_see_notice(me: str, notice: Document, people: Relations) -> bool:
    actor, about = people[notice["by"]], notice["about"]
    if not actor.is_visible or notice["muted"]:
        return False
    if notice["kind"] == "circled":
        return bool(actor.in_circles_since == notice["ts"])  # not about an earlier membership that has ended
    return about is not None and rules.may_see(me, about, people[about["by"]])


# ---- pages ----


def position_of(cursor: str | None) -> Position | None:
    """Return the position in a list by time that the cursor stands for.

    Raises: `Invalid`.
    """
    if cursor is None:
        return None
    keys = cursor_keys(ORDER, cursor)
    if not isinstance(keys["ts"], datetime) or not isinstance(keys["_id"], str):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return keys["ts"], keys["_id"]


def check_page_size(limit: Any) -> int:
    """Return `limit`, or raise `Invalid` unless it is an integer from 1 to `MOST_ITEMS`."""
    return checks.integer(limit, "limit", least=1, most=MOST_ITEMS)


def _reader(db: Db, stages: list[Document], me: str) -> Document:
    reader = next(iter(db["social.users"].aggregate(stages)), None)
    if reader is None or reader.get("left_at"):
        raise unknown_user(me)
    return reader


def _posts(
    db: Db,
    viewer: str | None,
    read: Callable[[str | None], Page[Document]],
    keep: PostFilter,
    cursor: str | None,
    limit: int,
    owner: str | None = None,
) -> Page[Post]:
    """Return a page of the posts that `read` gives and `keep` accepts. A list's `owner` must be a member."""
    seen: dict[str, Relations] = {}

    def kept(found: list[Document]) -> list[Document]:
        people = relations(db, viewer, [*_people_of(found), *([owner] if owner is not None else [])])
        if owner is not None and not people[owner].is_member:
            raise unknown_user(owner)
        seen.update({one["_id"]: people for one in found})
        return [one for one in found if keep(one, people)]

    shown = filtered_page(read, kept, ORDER, cursor, limit)
    return shown.map(lambda post: _as_post(post, viewer, seen[post["_id"]]))


def _people_of(posts: Iterable[Document]) -> Sequence[str]:
    """Return the ids of all members whose names these posts show."""
    people = []
    for post in posts:
        if "by" in post:
            named = [post["to"]] if post["to"] else []
            people += [post["by"], *named, *post["mentions"], *(one["by"] for one in post["comments"])]
    return people


# ---- results ----


def _as_post(post: Document, viewer: str | None, people: Relations) -> Post:
    shown = [one for one in post["comments"] if people[one["by"]].is_visible]
    return {
        "id": post["_id"],
        "by": people.person(post["by"]),
        "to": people.person(post["to"]) if post["to"] else None,
        "audience": rules.audience_label(post),
        "circles": post["circles"] if viewer == post["by"] else [],
        "type": post["type"],
        "ts": post["ts"],
        "detail": post["detail"],
        "mentions": [people.person(one) for one in post["mentions"] if people[one].is_visible],
        "comments": [_as_comment(one, people) for one in shown],
        "comment_count": post["comment_count"],
    }


def _as_comment(comment: Document, people: Relations) -> Comment:
    return {
        "id": comment["id"],
        "by": people.person(comment["by"]),
        "text": comment["text"],
        "ts": comment["ts"],
    }


def _as_notice(notice: Document, people: Relations, seen_at: datetime) -> Notice:
    about: Document = {name: notice[name] for name in ("post", "text") if name in notice}
    shown = {"id": notice["_id"], "kind": notice["kind"], "by": people.person(notice["by"]), "ts": notice["ts"]}
    return cast(Notice, {**shown, "seen": notice["ts"] <= seen_at, **about})
