"""The `embedded` strategy: comments are an array in the node. Every write is one update; the server cuts the pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import bson
from pymongo.client_session import ClientSession
from pymongo.errors import WriteError

from squinney.content.comments import queries
from squinney.content.comments.discussions import SORTS, DiscussedNode, Order, public, repeated, reply_refused
from squinney.content.comments.documents import MAX_EMBEDDED_BYTES
from squinney.content.documents import Comment
from squinney.content.errors import DiscussionFull
from squinney.mongo.schema import Db, Document
from squinney.patterns.fair_locks import FairLocks
from squinney.patterns.paging import Page, cursor_keys, page_from
from squinney.transactions import Busy, Key, Stale, Step, once

NO_ROOM_IN_CACHE = 388  # the server's TransactionTooLargeForCache


class _Unmatched(Exception):
    """The node does not match an update."""


class Embedded:
    """The `embedded` strategy."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._fair_locks = FairLocks()

    def page(
        self, discussed: DiscussedNode, cursor: str | None, limit: int, order: Order, at: Comment | None
    ) -> Page[Comment]:
        """Return a page of comments with one query; the server reads the whole node but sends only the page."""
        sort = SORTS[order]
        bounds = {"$gt": cursor_keys([(sort, 1)], cursor)[sort]} if cursor else {}
        if at:
            bounds = {"$gte": at[sort]}  # type: ignore[literal-required]
        comments = self._cut(discussed, sort, limit + 1, bounds)
        return page_from(comments, [(sort, 1)], limit=limit).map(public)

    def _cut(self, discussed: DiscussedNode, sort: str, limit: int, bounds: Document) -> list[Document]:
        node = {**discussed.filter, "metadata.discussion.epoch": discussed.discussion["epoch"]}
        stages = queries.EMBEDDED_PAGE(node=node, sort=sort, limit=limit, bounds=bounds)
        cut = next(self._db[discussed.collection].aggregate(stages), None)
        if cut is None:
            raise Stale("the discussion was converted or its node was moved")
        return list(cut["items"])

    def get(self, discussed: DiscussedNode, slug: str) -> Comment | None:
        return self._one(discussed, {"slug": slug})

    def _one(self, discussed: DiscussedNode, wanted: Document) -> Comment | None:
        where = {**discussed.filter, "metadata.comments": {"$elemMatch": wanted}}
        subject = self._db[discussed.collection].find_one(where, {"metadata.comments.$": 1})
        return public(subject["metadata"]["comments"][0]) if subject else None

    def thread(self, discussed: DiscussedNode, comment: Comment, limit: int) -> list[Comment]:
        """Return a comment and the replies below it with one query."""
        # `0` is the character after `/`, so siblings whose slug begins with this comment's are not in the range.
        thread = {"$gte": comment["full_slug"], "$lt": f"{comment['full_slug']}0"}
        return [public(other) for other in self._cut(discussed, "full_slug", limit, thread)]

    def post(
        self,
        discussed: DiscussedNode,
        comment: Comment,
        parent: Comment | None,
        key: Key | None,
        also: Sequence[Step] = (),
    ) -> Comment:
        """Add a comment with one update, which requires room in the node and, for a reply, an undeleted parent."""
        stored: Document = {**comment, **({"key": f"{key.scope}/{key.text}"} if key else {})}
        room = MAX_EMBEDDED_BYTES - len(bson.encode(stored))
        where: Document = {"$expr": {"$lt": [{"$bsonSize": "$$ROOT"}, room]}}
        update: Any = {"$push": {"metadata.comments": stored}, "$inc": {"metadata.num_comments": 1}}
        if parent:
            where["metadata.comments"] = {"$elemMatch": {"slug": parent["slug"], "deleted": None}}
            update = _with_reply(stored, parent["slug"])
        if key:
            where["metadata.comments.key"] = {"$ne": stored["key"]}
        if self._update(discussed, where, update, also):
            return comment
        return self._post_refused(discussed, stored, parent, key, room)

    def _post_refused(
        self, discussed: DiscussedNode, stored: Document, parent: Comment | None, key: Key | None, room: int
    ) -> Comment:
        """Return the comment that was posted with the key before, or raise the reason for which the update failed."""
        if key and (earlier := self._one(discussed, {"key": stored["key"]})):
            return repeated(earlier, stored)
        if self._db[discussed.collection].find_one({**discussed.filter, **discussed.guard}, {"_id": 1}) is None:
            raise Stale("the discussion was converted or its node was moved")
        self._require_room(discussed, room)
        if parent:
            current = self.get(discussed, parent["slug"])
            if current is None or current.get("deleted"):
                raise reply_refused(dict(current) if current else None)
        raise Stale("the discussion has changed")

    def _require_room(self, discussed: DiscussedNode, room: int) -> None:
        larger = {**discussed.filter, **discussed.guard, "$expr": {"$gte": [{"$bsonSize": "$$ROOT"}, room]}}
        if self._db[discussed.collection].find_one(larger, {"_id": 1}):
            raise full()

    def change(
        self,
        discussed: DiscussedNode,
        comment: Comment,
        fields: Document,
        *,
        counted: int = 0,
        also: Sequence[Step] = (),
    ) -> None:
        """Change a comment with one update of its element, whose version must match; a longer text requires room."""
        update = {
            "$set": {f"metadata.comments.$.{name}": value for name, value in fields.items()},
            "$inc": {"metadata.comments.$.version": 1, "metadata.num_comments": counted},
        }
        where: Document = {
            "metadata.comments": {"$elemMatch": {"slug": comment["slug"], "version": comment["version"]}}
        }
        longer = len(fields["text"].encode()) - len(comment["text"].encode())
        room = MAX_EMBEDDED_BYTES - longer
        if longer > 0:
            where["$expr"] = {"$lt": [{"$bsonSize": "$$ROOT"}, room]}
        if not self._update(discussed, where, update, also):
            if longer > 0:
                self._require_room(discussed, room)
            raise Stale("the comment has changed")

    def remove(self, discussed: DiscussedNode, comment: Comment, *, also: Sequence[Step] = ()) -> None:
        """Remove a comment and update its parent's count of replies, in one update."""
        unanswered = {"slug": comment["slug"], "version": comment["version"], "num_replies": 0}
        update = _without(comment["slug"], comment["slug"].rpartition("/")[0])
        if not self._update(discussed, {"metadata.comments": {"$elemMatch": unanswered}}, update, also):
            raise Stale("the comment has changed")

    def _update(self, discussed: DiscussedNode, where: Document, update: Any, also: Sequence[Step]) -> bool:
        """Return whether the update matched the node; further steps happen in one transaction with it."""
        where = {**discussed.filter, "$and": [discussed.guard, where]}

        def work(session: ClientSession | None = None) -> None:
            if not self._db[discussed.collection].update_one(where, update, session=session).matched_count:
                raise _Unmatched

        try:
            with self._fair_locks.hold(discussed.node_id):
                if also:
                    once(self._db, "change-discussion", work, also=also, own={discussed.collection})
                else:
                    work()
            return True
        except _Unmatched:
            return False
        except WriteError as error:
            if error.code == NO_ROOM_IN_CACHE:
                raise Busy("the server's cache has no room for a document of this size now; try again") from error
            raise

    def all(self, discussed: DiscussedNode) -> Iterator[Comment]:
        yield from map(public, self._cut(discussed, "_id", 2**31 - 1, {}))


def full() -> DiscussionFull:
    """Return the error for a discussion that does not fit in its node."""
    most = f"an embedded discussion holds at most {MAX_EMBEDDED_BYTES // 2**20} MB"
    return DiscussionFull(f"{most}: convert larger ones to 'separate' or 'paged'", limit=MAX_EMBEDDED_BYTES)


def _with_reply(comment: Document, parent_slug: str) -> list[Document]:
    """Return a pipeline update that appends a reply and counts it in its parent.

    Operators cannot do this: one update may not both push to an array and change one of its elements.
    """
    comments = {"$concatArrays": [_counted(parent_slug, 1), [{"$literal": comment}]]}
    return [{"$set": {"metadata.comments": comments, "metadata.num_comments": {"$add": ["$metadata.num_comments", 1]}}}]


def _without(slug: str, parent_slug: str) -> list[Document]:
    others = {"$filter": {"input": _counted(parent_slug, -1), "cond": {"$ne": ["$$this.slug", slug]}}}
    return [{"$set": {"metadata.comments": others, "metadata.num_comments": {"$add": ["$metadata.num_comments", -1]}}}]


def _counted(parent_slug: str, change: int) -> Document:
    more = {"$mergeObjects": ["$$c", {"num_replies": {"$add": ["$$c.num_replies", change]}}]}
    return {
        "$map": {
            "input": "$metadata.comments",
            "as": "c",
            "in": {"$cond": [{"$eq": ["$$c.slug", parent_slug]}, more, "$$c"]},
        }
    }
