"""News, walls and incoming posts for one viewer.

A list first reads the entries and their posts, then the viewer's current relations to the people on the screen, and
then decides what to show. So each page takes two round trips, and nothing is shown that was hidden before the read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squinney.mongo.queries import Query
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, cursor_after, filtered_page, page_from
from squinney.social import queries, rules
from squinney.social.documents import Post
from squinney.social.members.accounts import unknown_user
from squinney.social.members.relations import Relations, relations
from squinney.social.news.pages import ORDER, position_of, read_with_entries
from squinney.social.posts.posts import as_post, people_of

PostFilter = Callable[[Document, Relations], bool]


def list_news(db: Db, me: str, cursor: str | None, limit: int) -> Page[Post]:
    """Return a page of a member's news, newest first.

    Posts by muted or blocked users, and by users who removed the reader from their circles, are skipped on the server
    once such an author is found, so that one very active author cannot push all other posts off the page.
    """
    hidden: set[str] = set()

    def read(cursor: str | None) -> Page[Document]:
        # guard: posts by muted authors are skipped in news
        stages = queries.NEWS(user=me, limit=limit + 1, position=position_of(cursor), without=hidden)
        reader = read_with_entries(db, stages, me)
        hidden.update(reader["muted"])
        return page_from(_newest_first(reader)[: limit + 1], ORDER, limit=limit)

    def keep(post: Document, people: Relations) -> bool:
        # guard: posts by users who removed the reader are skipped
        if "by" in post and not people[post["by"]].can_be_news:
            # guard: posts by hidden authors are skipped in news
            hidden.add(post["by"])
        at = post["followed_at"]
        # guard: posts by muted authors are not in news
        return "by" in post and post["by"] not in hidden and rules.is_news(me, post, people[post["by"]], at)

    return _posts(db, me, read, keep, cursor, limit)


def _newest_first(reader: Document) -> list[Document]:
    """Return delivered and merged posts, newest first. Of a deleted post, only its id and time are left."""
    followed = {entry["_id"]["p"]: entry.get("f") for entry in reader["entries"]}
    posts = {entry["_id"]["p"]: {"_id": entry["_id"]["p"], "ts": entry["_id"]["t"]} for entry in reader["entries"]}
    posts.update({post["_id"]: post for post in (*reader["newest"], *reader["posts"])})
    shown = [{**post, "followed_at": followed.get(post["_id"])} for post in posts.values()]
    return sorted(shown, key=lambda post: (post["ts"], post["_id"]), reverse=True)


def list_wall(db: Db, viewer: str | None, owner: str, cursor: str | None, limit: int) -> Page[Post]:
    """Return a page of the posts by or to the owner. The owner's own view omits posts by people they do not follow."""

    def may_see(post: Document, people: Relations) -> bool:
        # guard: the wall of a blocked member is empty
        return people[owner].is_visible and rules.may_see(viewer, post, people[post["by"]])

    def is_omitted(post: Document, people: Relations) -> bool:
        return viewer == owner and post["by"] != owner and people[post["by"]].follows_since is None

    return _owner_posts(db, queries.WALL, viewer, owner, may_see, cursor, limit, is_omitted)


def list_incoming(db: Db, me: str, cursor: str | None, limit: int) -> Page[Post]:
    """Return a page of the posts that are addressed to the member."""

    def may_see(post: Document, people: Relations) -> bool:
        return rules.may_see(me, post, people[post["by"]])

    return _owner_posts(db, queries.INCOMING, me, me, may_see, cursor, limit)


def list_public(db: Db, viewer: str | None, cursor: str | None, limit: int) -> Page[Post]:
    """Return a page of the public posts of all members whom the viewer has not blocked, and who have not left."""
    hidden: set[str] = set()

    def read(cursor: str | None) -> Page[Document]:
        without = [{"by": {"$in": sorted(hidden)}}] if hidden else []
        return _not_hidden(db, queries.PUBLIC_POSTS, without, limit, position=position_of(cursor))

    def keep(post: Document, people: Relations) -> bool:
        if not people[post["by"]].is_visible:
            hidden.add(post["by"])
        return rules.may_see(viewer, post, people[post["by"]])

    return _posts(db, viewer, read, keep, cursor, limit)


def _not_hidden(db: Db, query: Query, hidden: list[Document], limit: int, **arguments: Any) -> Page[Document]:
    """Return a page of posts without the hidden ones; it may be short, and then continues behind those passed over."""
    if not hidden:
        return page_from(list(query.find(db, limit=limit + 1, **arguments)), ORDER, limit=limit)
    passed = next(queries.NOT_HIDDEN.run(db, where=query(**arguments), hidden=hidden, limit=limit + 1))
    if len(passed["shown"]) > limit or not passed["last"]:
        return page_from(passed["shown"], ORDER, limit=limit)
    return Page(passed["shown"], cursor_after(ORDER, passed["last"][0]))


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
        # guard: hidden posts are skipped on a wall
        without = list(hidden.values())
        return _not_hidden(db, query, without, limit, owner=owner, position=position_of(cursor))

    def keep(post: Document, people: Relations) -> bool:
        author = people[post["by"]]
        if is_omitted(post, people) or not author.is_visible:
            hidden[post["by"]] = {"by": post["by"]}
            return False
        if not may_see(post, people):
            seen = rules.visible_audiences(author)
            # guard: a visitor's wall skips posts without an addressee
            to_others = {} if viewer is None else {"to": {"$ne": viewer}}
            # guard: posts addressed to the viewer are not skipped on a wall
            hidden[post["by"]] = {"by": post["by"], **to_others, "circles": {"$nin": seen}}
            return False
        return True

    return _posts(db, viewer, read, keep, cursor, limit, owner)


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

    def kept(posts: list[Document]) -> list[Document]:
        people = relations(db, viewer, [*people_of(posts), *([owner] if owner is not None else [])])
        if owner is not None and not people[owner].is_member:
            raise unknown_user(owner)
        seen.update({post["_id"]: people for post in posts})
        return [post for post in posts if keep(post, people)]

    shown = filtered_page(read, kept, ORDER, cursor, limit)
    return shown.map(lambda post: as_post(post, viewer, seen[post["_id"]]))
