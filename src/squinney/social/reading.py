"""Lists for a viewer: what was written first, then what its writers are to the viewer now, and only then what to show.

Each page is two round trips: the entries with their posts, and the people of the screen.
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
from squinney.social.errors import UnknownUser
from squinney.social.members import Relations, relations
from squinney.social.posting import visible
from squinney.social.queries import Place

MOST_ITEMS = 100
ORDER = [("ts", -1), ("_id", -1)]
COMMENTS_ORDER = [("ts", 1), ("_id", 1)]
Keep = Callable[[Document, Relations], bool]


def news(db: Db, me: str, cursor: str | None, limit: int) -> Page[Post]:
    """What others let me know, newest first.

    Once somebody is found to be set apart, or to have let the reader go, theirs are passed over by the server: who
    posts without end must not bury what others write.
    """
    hidden: set[str] = set()

    def read(cursor: str | None) -> Page[Document]:
        found = queries.NEWS(user=me, limit=limit + 1, place=place_of(cursor), without=hidden)
        reader = _reader(db, found, me)
        hidden.update(reader["muted"])
        return page_from(newest(reader)[: limit + 1], ORDER, limit=limit)

    def keep(post: Document, people: Relations) -> bool:
        if "by" in post and not people[post["by"]].may_reach:
            hidden.add(post["by"])
        return "by" in post and post["by"] not in hidden and rules.is_news(me, post, people[post["by"]])

    return _posts(db, me, read, keep, cursor, limit)


def newest(reader: Document) -> list[Document]:
    """Delivered and merged posts, newest first; of a post that is gone only its place is left."""
    found = {entry["_id"]["p"]: {"_id": entry["_id"]["p"], "ts": entry["_id"]["t"]} for entry in reader["entries"]}
    found.update({post["_id"]: post for post in (*reader["newest"], *reader["posts"])})
    return sorted(found.values(), key=lambda post: (post["ts"], post["_id"]), reverse=True)


def wall(db: Db, viewer: str | None, owner: str, cursor: str | None, limit: int) -> Page[Post]:
    """Posts by or to somebody. One's own wall leaves out what strangers wrote on it: that is `incoming`."""

    def may_see(post: Document, people: Relations) -> bool:
        return people[owner].shows and rules.may_see(viewer, post, people[post["by"]])

    def is_left_out(post: Document, people: Relations) -> bool:
        return viewer == owner and post["by"] != owner and people[post["by"]].follows_since is None

    return _list(db, queries.WALL, viewer, owner, may_see, cursor, limit, is_left_out)


def incoming(db: Db, me: str, cursor: str | None, limit: int) -> Page[Post]:
    """Everything addressed to me that I may see."""

    def may_see(post: Document, people: Relations) -> bool:
        return rules.may_see(me, post, people[post["by"]])

    return _list(db, queries.INCOMING, me, me, may_see, cursor, limit)


def _list(
    db: Db,
    query: Query,
    viewer: str | None,
    owner: str,
    may_see: Keep,
    cursor: str | None,
    limit: int,
    is_left_out: Keep = lambda post, people: False,
) -> Page[Post]:
    """A list of somebody's. What the viewer is found not to see of an author is from then on passed over by the server:
    who writes without end on a wall must not bury what others wrote there."""
    hidden: dict[str, Document] = {}

    def read(cursor: str | None) -> Page[Document]:
        found = query.find(db, limit=limit + 1, owner=owner, place=place_of(cursor), hidden=list(hidden.values()))
        return page_from(list(found), ORDER, limit=limit)

    def keep(post: Document, people: Relations) -> bool:
        author = people[post["by"]]
        if is_left_out(post, people) or not author.shows:
            hidden[post["by"]] = queries.by([post["by"]])
            return False
        if not may_see(post, people):
            seen = rules.audiences_with(author)
            hidden[post["by"]] = {"by": post["by"], "to": {"$ne": viewer}, "circles": {"$nin": seen}}
            return False
        return True

    return _posts(db, viewer, read, keep, cursor, limit, owner)


def get_post(db: Db, viewer: str | None, post: str) -> Post:
    """One post, where the viewer may see it."""
    found = visible(db, viewer, post)
    return _as_post(found, viewer, relations(db, viewer, _people_of([found])))


def as_author(db: Db, post: Document) -> Post:
    """A post as its author sees it who has just written it."""
    return _as_post(post, post["by"], relations(db, post["by"], _people_of([post]), must_be_here=False))


def comments(db: Db, viewer: str | None, post: str, cursor: str | None, limit: int) -> Page[Comment]:
    """All comments of a post that the viewer may see, oldest first, but those of people who are hidden from them."""
    visible(db, viewer, post)
    seen: dict[str, Relations] = {}
    hidden: set[str] = set()

    def read(cursor: str | None) -> Page[Document]:
        return page(db, queries.COMMENTS, cursor=cursor, limit=limit, most=MOST_ITEMS, post=post, without=hidden)

    def keep(found: list[Document]) -> list[Document]:
        people = relations(db, viewer, [one["by"] for one in found])
        seen.update({one["_id"]: people for one in found})
        hidden.update(one["by"] for one in found if not people[one["by"]].shows)
        return [one for one in found if people[one["by"]].shows]

    shown = filtered_page(read, keep, COMMENTS_ORDER, cursor, limit)
    return shown.map(lambda one: _as_comment({**one, "id": one["_id"]}, seen[one["_id"]]))


def notices(db: Db, me: str, cursor: str | None, limit: int, since: datetime | None = None) -> Page[Notice]:
    """What I was told, or since a time, newest first, as far as I may still know it."""
    seen: dict[str, tuple[Relations, datetime]] = {}
    hidden: set[str] = set()

    def read(cursor: str | None) -> Page[Document]:
        told = queries.TOLD(user=me, limit=limit + 1, place=place_of(cursor), since=since, without=hidden)
        reader = _reader(db, told, me)
        posts = {post["_id"]: post for post in reader["posts"]}
        people = relations(db, me, [one["by"] for one in (*reader["entries"], *reader["posts"])])
        found = [_told(one, posts, reader["muted"]) for one in reader["entries"]]
        hidden.update(one["by"] for one in found if one["muted"] or not people[one["by"]].shows)
        seen.update({one["_id"]: (people, reader["seen_at"]) for one in found})
        return page_from(found, ORDER, limit=limit)

    def keep(found: list[Document]) -> list[Document]:
        return [one for one in found if _may_be_told(me, one, seen[one["_id"]][0])]

    shown = filtered_page(read, keep, ORDER, cursor, limit)
    return shown.map(lambda one: _as_notice(one, *seen[one["_id"]]))


def _told(entry: Document, posts: Mapping[str, Document], muted: Sequence[str]) -> Document:
    about = posts.get(entry.get("post", ""))
    return {**entry, "ts": entry["_id"]["t"], "_id": entry["_id"]["n"], "about": about, "muted": entry["by"] in muted}


def _may_be_told(me: str, notice: Document, people: Relations) -> bool:
    actor, about = people[notice["by"]], notice["about"]
    if not actor.shows or notice["muted"]:
        return False
    if notice["kind"] == "circled":
        return bool(actor.in_since == notice["ts"])  # and not an earlier time that has ended
    return about is not None and rules.may_see(me, about, people[about["by"]])


# ---- pages ----


def place_of(cursor: str | None) -> Place | None:
    """Where a list goes on.

    Raises: `Invalid`.
    """
    if cursor is None:
        return None
    keys = cursor_keys(ORDER, cursor)
    if not isinstance(keys["ts"], datetime) or not isinstance(keys["_id"], str):
        raise Invalid("cursor is not one that this list gave", field="cursor")
    return keys["ts"], keys["_id"]


def limited(limit: Any) -> int:
    """A page's size."""
    return checks.integer(limit, "limit", least=1, most=MOST_ITEMS)


def _reader(db: Db, stages: list[Document], me: str) -> Document:
    reader = next(iter(db["social.users"].aggregate(stages)), None)
    if reader is None or reader.get("left_at"):
        raise UnknownUser(f"there is no member {me}", user=me)
    return reader


def _posts(
    db: Db,
    viewer: str | None,
    read: Callable[[str | None], Page[Document]],
    keep: Keep,
    cursor: str | None,
    limit: int,
    *others: str,
) -> Page[Post]:
    seen: dict[str, Relations] = {}

    def kept(found: list[Document]) -> list[Document]:
        people = relations(db, viewer, [*_people_of(found), *others])
        if others and not people[others[0]].here:
            raise UnknownUser(f"there is no member {others[0]}", user=others[0])
        seen.update({one["_id"]: people for one in found})
        return [one for one in found if keep(one, people)]

    shown = filtered_page(read, kept, ORDER, cursor, limit)
    return shown.map(lambda post: _as_post(post, viewer, seen[post["_id"]]))


def _people_of(posts: Iterable[Document]) -> Sequence[str]:
    """Everybody whose name is on a screen with these posts."""
    people = []
    for post in posts:
        if "by" in post:
            named = [post["to"]] if post["to"] else []
            people += [post["by"], *named, *post["mentions"], *(one["by"] for one in post["comments"])]
    return people


# ---- what a viewer gets ----


def _as_post(post: Document, viewer: str | None, people: Relations) -> Post:
    shown = [one for one in post["comments"] if people[one["by"]].shows]
    return {
        "id": post["_id"],
        "by": people.person(post["by"]),
        "to": people.person(post["to"]) if post["to"] else None,
        "audience": rules.audience_of(post),
        "circles": post["circles"] if viewer == post["by"] else [],
        "type": post["type"],
        "ts": post["ts"],
        "detail": post["detail"],
        "mentions": [people.person(one) for one in post["mentions"] if people[one].shows],
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
    told: Document = {name: notice[name] for name in ("post", "text") if name in notice}
    shown = {"id": notice["_id"], "kind": notice["kind"], "by": people.person(notice["by"]), "ts": notice["ts"]}
    return cast(Notice, {**shown, "seen": notice["ts"] <= seen_at, **told})
