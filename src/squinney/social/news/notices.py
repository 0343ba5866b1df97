"""A member's notices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from squinney import checks
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, filtered_page, page_from
from squinney.social import queries, rules
from squinney.social.documents import Notice
from squinney.social.members.accounts import get_member
from squinney.social.members.relations import Relations, relations
from squinney.social.news.pages import ORDER, position_of, read_with_entries

MAX_UNSEEN = 100


def list_notices(db: Db, me: str, cursor: str | None, limit: int, since: datetime | None = None) -> Page[Notice]:
    """Return a page of a member's notices that the member may still see, newest first, and none older than `since`."""
    seen: dict[str, tuple[Relations, datetime]] = {}
    hidden: set[str] = set()

    def read(cursor: str | None) -> Page[Document]:
        position = position_of(cursor)
        # guard: notices by hidden members are skipped
        stages = queries.NOTICES_WITH_POSTS(user=me, limit=limit + 1, position=position, since=since, without=hidden)
        reader = read_with_entries(db, stages, me)
        posts = {post["_id"]: post for post in reader["posts"]}
        people = relations(db, me, [document["by"] for document in (*reader["entries"], *reader["posts"])])
        notices = [_with_post(entry, posts, reader["muted"]) for entry in reader["entries"]]
        hidden.update(notice["by"] for notice in notices if notice["muted"] or not people[notice["by"]].is_visible)
        seen.update({notice["_id"]: (people, reader["seen_at"]) for notice in notices})
        return page_from(notices, ORDER, limit=limit)

    def keep(notices: list[Document]) -> list[Document]:
        return [notice for notice in notices if _may_see_notice(me, notice, seen[notice["_id"]][0])]

    shown = filtered_page(read, keep, ORDER, cursor, limit)
    return shown.map(lambda notice: _as_notice(notice, *seen[notice["_id"]]))


def _with_post(entry: Document, posts: Mapping[str, Document], muted: Sequence[str]) -> Document:
    about = posts.get(entry.get("post", ""))
    return {**entry, "ts": entry["_id"]["t"], "_id": entry["_id"]["n"], "about": about, "muted": entry["by"] in muted}


def _may_see_notice(me: str, notice: Document, people: Relations) -> bool:
    actor, about = people[notice["by"]], notice["about"]
    # guard: notices by muted members are not shown
    if not actor.is_visible or notice["muted"]:
        return False
    if notice["kind"] == "circled":
        # guard: a notice about an ended follow is not shown
        return bool(actor.in_circles_since == notice["ts"])  # not about an earlier membership that has ended
    # guard: a notice about a hidden post is not shown
    return about is not None and rules.may_see(me, about, people[about["by"]])


def _as_notice(notice: Document, people: Relations, seen_at: datetime) -> Notice:
    about: Document = {name: notice[name] for name in ("post", "text") if name in notice}
    shown = {"id": notice["_id"], "kind": notice["kind"], "by": people.person(notice["by"]), "ts": notice["ts"]}
    return cast(Notice, {**shown, "seen": notice["ts"] <= seen_at, **about})


def count_unseen(db: Db, me: str) -> int:
    """Return the number of notices since the last `see_notices`, at most `MAX_UNSEEN`."""
    # Every page shows this number, so it must not read notices that were seen before.
    since = get_member(db, checks.identifier(me, "me"))["seen_at"]
    recent = list_notices(db, me, None, MAX_UNSEEN, since)
    return sum(not notice["seen"] for notice in recent.items)
