"""Writing and deleting posts and comments."""

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
from squinney.social.members import get_member
from squinney.social.network.shared import check_two_members
from squinney.transactions import Key, in_transaction, once


class Posts:
    """Members' posts and comments."""

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
        """Write a post for `["*public*"]`, for `["*circles*"]` (everyone in the circles of `me`), or for named circles.

        `to` puts the post on that member's wall. With the same `key`, only one post is written.

        Atomic: the post, its delivery task, its notices and the count of this minute are one transaction.
        After a crash: the transaction was committed or not; the worker delivers the post.
        Raises: `Invalid`, `UnknownUser`, `Blocked`, `TooFast`, `Busy`; with a key also `KeyReused`.
        """
        checks.identifier(me, "me")
        checked = rules.check_detail(type, detail)
        circles = rules.check_audience(circles)
        if to is not None:
            check_two_members(me, to, "to")

        written: dict[str, Document] = {}

        def work(session: ClientSession) -> str:
            made = posting.write_post(self._db, self._queue, me, type, checked, circles, to, self._clock, session)
            written[made["_id"]] = made
            return cast(str, made["_id"])

        arguments = {"me": me, "type": type, "detail": checked, "circles": circles, "to": to}
        made = once(self._db, "social.post", work, key=key, arguments=arguments)
        if made in written:  # do not read the post again: it was written even if its author has left since
            return reading.as_author(self._db, written[made])
        return reading.get_post(self._db, me, made)

    @operation()
    def count_photo(self, me: str) -> None:
        """Count a photo against the limit per minute before it is decoded, because decoding costs more than a post.

        Atomic: one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownUser`, `TooFast`, `Busy`.
        """
        checks.identifier(me, "me")

        def work(session: ClientSession) -> None:
            posting.count_action(self._db, get_member(self._db, me, session), "photos", self._clock(), session)

        in_transaction(self._db, work)

    @operation()
    def comment(self, me: str, post: str, text: str, *, key: str | Key | None = None) -> str:
        """Comment on a post that `me` may see, and return the comment's id.

        With the same `key`, only one comment is written.

        Atomic: the comment, the last three comments and the count on the post, and the notices are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownPost`, `UnknownUser`, `TooFast`, `Busy`; with a key also `KeyReused`.
        """
        checks.identifier(me, "me")
        checks.identifier(post, "post")
        checks.text(text, "text", least=1, most=rules.MOST_COMMENT)
        if not text.strip():
            raise Invalid("text must not be blank", field="text")

        def work(session: ClientSession) -> str:
            return cast(str, posting.write_comment(self._db, me, post, text, self._clock, session)["_id"])

        return once(self._db, "social.comment", work, key=key, arguments={"me": me, "post": post, "text": text})

    @operation()
    def delete_post(self, me: str, post: str) -> None:
        """Delete a post by `me` or addressed to `me`. The post is invisible at once; the worker deletes its comments.

        Atomic: the deletion and the worker's task are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `UnknownPost`, `UnknownUser`, `Busy`.
        """
        checks.identifier(me, "me")
        checks.identifier(post, "post")
        in_transaction(self._db, lambda session: posting.delete_post(self._db, self._queue, me, post, session))

    @operation()
    def delete_comment(self, me: str, comment: str) -> None:
        """Delete a comment by `me`, or a comment on a post by `me`.

        Atomic: the comment, its notices, and the last three comments and the count on the post are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `UnknownPost`, `UnknownUser`, `Busy`.
        """
        checks.identifier(me, "me")
        checks.identifier(comment, "comment")
        in_transaction(self._db, lambda session: posting.delete_comment(self._db, me, comment, session))
