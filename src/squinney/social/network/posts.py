"""Posts and comments, written and removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pymongo.client_session import ClientSession

from squinney import checks
from squinney.clock import Clock
from squinney.errors import Invalid
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns.queue import Queue
from squinney.social import posting, reading, rules
from squinney.social.documents import Post
from squinney.social.members import member
from squinney.social.network.shared import SECONDS, check_two, do
from squinney.transactions import Key, once


class Posts:
    """What members write."""

    _db: Db
    _clock: Clock
    _queue: Queue

    @operation()
    def post(
        self,
        me: str,
        type: str,
        detail: Mapping[str, Any],
        circles: list[str],
        to: str | None = None,
        *,
        key: str | Key | None = None,
    ) -> Post:
        """Write a post for `["*public*"]`, `["*circles*"]` (everybody in mine) or circles by name; `to` puts it on
        somebody's wall. With a `key` it happens once.

        Atomic: the post, its delivery's task, its notices and the count of this minute are one transaction.
        After a crash: it happened or it did not; the worker delivers it.
        Raises: `Invalid`, `UnknownUser`, `Blocked`, `TooFast`, `Busy`; with a key also `KeyReused`.
        """
        checks.identifier(me, "me")
        checked = rules.detail(type, detail)
        circles = rules.audience(circles)
        if to is not None:
            check_two(me, to, "to")

        written: dict[str, Document] = {}

        def work(session: ClientSession) -> str:
            made = posting.write_post(self._db, self._queue, me, type, checked, circles, to, self._clock, session)
            written[made["_id"]] = made
            return cast(str, made["_id"])

        arguments = {"me": me, "type": type, "detail": checked, "circles": circles, "to": to}
        made = once(self._db, "social.post", work, key=key, seconds=SECONDS, arguments=arguments)
        if made in written:  # not by asking again: whoever leaves meanwhile has written it all the same
            return reading.as_author(self._db, written[made])
        return reading.get_post(self._db, me, made)

    @operation()
    def count_photo(self, me: str) -> None:
        """Count a photo for a post to come, before anybody looks at it: to decode one costs far more than a post.

        Atomic: one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`, `TooFast`, `Busy`.
        """
        checks.identifier(me, "me")

        def work(session: ClientSession) -> None:
            posting.count(self._db, member(self._db, me, session), "photos", self._clock(), session)

        do(self._db, work)

    @operation()
    def comment(self, me: str, post: str, text: str, *, key: str | Key | None = None) -> str:
        """Write below a post that one may see; returns the comment's id. With a `key` it happens once.

        Atomic: the comment, the last three and the count on the post, and the notices are one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownPost`, `UnknownUser`, `TooFast`, `Busy`; with a key also `KeyReused`.
        """
        checks.identifier(me, "me")
        checks.identifier(post, "post")
        checks.text(text, "text", least=1, most=rules.MOST_COMMENT)
        if not text.strip():
            raise Invalid("text must not be blank", field="text")

        def work(session: ClientSession) -> str:
            return cast(str, posting.write_comment(self._db, me, post, text, self._clock, session)["_id"])

        return once(
            self._db, "social.comment", work, key=key, seconds=SECONDS, arguments={"me": me, "post": post, "text": text}
        )

    @operation()
    def delete_post(self, me: str, post: str) -> None:
        """Remove a post of mine, or one that is addressed to me. Nobody sees it from now on; the worker removes its
        comments.

        Atomic: the post and the worker's task are one transaction.
        After a crash: it happened or it did not.
        Raises: `UnknownPost`, `UnknownUser`, `Busy`.
        """
        checks.identifier(me, "me")
        checks.identifier(post, "post")
        do(self._db, lambda session: posting.delete_post(self._db, self._queue, me, post, session))

    @operation()
    def delete_comment(self, me: str, comment: str) -> None:
        """Remove a comment of mine, or one below a post of mine.

        Atomic: the comment, its notices, and the last three and the count on the post are one transaction.
        After a crash: it happened or it did not.
        Raises: `UnknownPost`, `UnknownUser`, `Busy`.
        """
        checks.identifier(me, "me")
        checks.identifier(comment, "comment")
        do(self._db, lambda session: posting.delete_comment(self._db, me, comment, session))
