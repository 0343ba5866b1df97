"""News, walls, comments and notices, as a reader may see them now."""

from __future__ import annotations

from squinney import checks
from squinney.clock import Clock
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page
from squinney.social import reading
from squinney.social.documents import Comment, Notice, Post
from squinney.social.members import get_member
from squinney.social.network.shared import change_member, check_viewer

LIMIT = 20
MOST_UNSEEN = 100


class Lists:
    """The lists that members read."""

    _db: Db
    _clock: Clock

    @operation(reads_only=True)
    def news(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Return the news of `me`, newest first: public posts by the authors whom `me` follows, and posts to circles
        that contain `me`. Posts from before `me` followed the author, or was in the circle, are left out.

        Raises: `UnknownUser`, `Invalid`.
        """
        return reading.news(self._db, checks.identifier(me, "me"), cursor, reading.check_page_size(limit))

    @operation(reads_only=True)
    def wall(self, viewer: str | None, owner: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Return the posts by and to `owner` that the viewer may see, newest first. `viewer` None is a visitor who is
        not a member. If `owner` is the viewer, posts by people whom `owner` does not follow are left out.

        Raises: `UnknownUser`, `Invalid`.
        """
        check_viewer(viewer)
        return reading.wall(self._db, viewer, checks.identifier(owner, "owner"), cursor, reading.check_page_size(limit))

    @operation(reads_only=True)
    def incoming(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Return all posts that are addressed to `me`, newest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return reading.incoming(self._db, checks.identifier(me, "me"), cursor, reading.check_page_size(limit))

    @operation(reads_only=True)
    def get_post(self, viewer: str | None, post: str) -> Post:
        """Return one post.

        Raises: `UnknownPost`, also if the viewer may not see the post; `UnknownUser`.
        """
        check_viewer(viewer)
        return reading.get_post(self._db, viewer, checks.identifier(post, "post"))

    @operation(reads_only=True)
    def comments(self, viewer: str | None, post: str, *, cursor: str | None = None, limit: int = 50) -> Page[Comment]:
        """Return a post's comments, oldest first.

        Raises: `UnknownPost`, `UnknownUser`, `Invalid`.
        """
        check_viewer(viewer)
        size = reading.check_page_size(limit)
        return reading.comments(self._db, viewer, checks.identifier(post, "post"), cursor, size)

    @operation(reads_only=True)
    def notices(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Notice]:
        """Return the notices of `me`, newest first: comments, mentions, posts on the wall of `me`, and new followers.

        Raises: `UnknownUser`, `Invalid`.
        """
        return reading.notices(self._db, checks.identifier(me, "me"), cursor, reading.check_page_size(limit))

    @operation(reads_only=True)
    def unseen(self, me: str) -> int:
        """Return the number of notices since the last `see_notices`, at most 100.

        Raises: `UnknownUser`.
        """
        # Every page shows this number, so it must not read notices that were seen before.
        since = get_member(self._db, checks.identifier(me, "me"))["seen_at"]
        found = reading.notices(self._db, me, None, MOST_UNSEEN, since)
        return sum(not notice["seen"] for notice in found.items)

    def see_notices(self, me: str) -> None:
        """Mark all notices of `me` until now as seen.

        Raises: `UnknownUser`.
        """
        change_member(self._db, me, {"$max": {"seen_at": self._clock()}})
