"""News, walls, comments and notices, as a reader may see them now."""

from __future__ import annotations

from squinney import checks
from squinney.clock import Clock
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page
from squinney.social import reading
from squinney.social.documents import Comment, Notice, Post
from squinney.social.members import member
from squinney.social.network.shared import change_member, check_viewer

LIMIT = 20
MOST_UNSEEN = 100


class Lists:
    """What members read."""

    _db: Db
    _clock: Clock

    @operation(reads_only=True)
    def news(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """What those wrote whom I follow, or who have me in the circles that they wrote to; newest first, made since
        that is so.

        Raises: `UnknownUser`, `Invalid`.
        """
        return reading.news(self._db, checks.identifier(me, "me"), cursor, reading.limited(limit))

    @operation(reads_only=True)
    def wall(self, viewer: str | None, owner: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Posts by and to somebody that the viewer may see, newest first. On one's own wall, only by people whom one
        follows. `viewer` None is a visitor who is no member.

        Raises: `UnknownUser`, `Invalid`.
        """
        check_viewer(viewer)
        return reading.wall(self._db, viewer, checks.identifier(owner, "owner"), cursor, reading.limited(limit))

    @operation(reads_only=True)
    def incoming(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Everything that is addressed to me, newest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return reading.incoming(self._db, checks.identifier(me, "me"), cursor, reading.limited(limit))

    @operation(reads_only=True)
    def get_post(self, viewer: str | None, post: str) -> Post:
        """One post.

        Raises: `UnknownPost`, also where it is not for this viewer; `UnknownUser`.
        """
        check_viewer(viewer)
        return reading.get_post(self._db, viewer, checks.identifier(post, "post"))

    @operation(reads_only=True)
    def comments(self, viewer: str | None, post: str, *, cursor: str | None = None, limit: int = 50) -> Page[Comment]:
        """A post's comments, oldest first.

        Raises: `UnknownPost`, `UnknownUser`, `Invalid`.
        """
        check_viewer(viewer)
        return reading.comments(self._db, viewer, checks.identifier(post, "post"), cursor, reading.limited(limit))

    @operation(reads_only=True)
    def notices(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Notice]:
        """What I was told: comments on my posts, mentions, posts on my wall, and who follows me; newest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return reading.notices(self._db, checks.identifier(me, "me"), cursor, reading.limited(limit))

    @operation(reads_only=True)
    def unseen(self, me: str) -> int:
        """How many notices came since I last looked; 100 stands for that many or more.

        Raises: `UnknownUser`.
        """
        since = member(self._db, checks.identifier(me, "me"))["seen_at"]  # every page asks: it reads no old ones
        found = reading.notices(self._db, me, None, MOST_UNSEEN, since)
        return sum(not notice["seen"] for notice in found.items)

    def see_notices(self, me: str) -> None:
        """Have everything that I was told until now count as seen.

        Raises: `UnknownUser`.
        """
        change_member(self._db, me, {"$max": {"seen_at": self._clock()}})
