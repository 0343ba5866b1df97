"""The `separate` strategy: each comment is a document. It supports threads, pages of any size and lists by author."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from squinney.content.comments import queries
from squinney.content.comments.discussions import DiscussedNode, Order, node_step, post_once, public, reply_refused
from squinney.content.comments.documents import COMMENTS
from squinney.content.documents import Comment
from squinney.errors import Invalid, SquinneyError
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, cursor_keys, page_from
from squinney.transactions import Key, Plan, Stale, Step, Transactions

Refused = Callable[[Document | None], SquinneyError]


class Separate:
    """The `separate` strategy."""

    def __init__(self, db: Db, transactions: Transactions) -> None:
        self._db = db
        self._transactions = transactions

    def page(
        self, discussed: DiscussedNode, cursor: str | None, limit: int, order: Order, at: Comment | None
    ) -> Page[Comment]:
        """Return a page of comments with one query."""
        query = queries.CHRONOLOGICAL if order == "chronological" else queries.THREADED
        comments = query.find(self._db, limit=limit + 1, **discussed.epoch_key, bounds=_bounds(query.sort, cursor, at))
        return page_from(list(comments), query.sort, limit=limit).map(public)

    def get(self, discussed: DiscussedNode, slug: str) -> Comment | None:
        comment = queries.COMMENT.find_one(self._db, **discussed.epoch_key, slug=slug)
        return public(comment) if comment else None

    def thread(self, discussed: DiscussedNode, comment: Comment, limit: int) -> list[Comment]:
        """Return a comment and the replies below it with one query, over a range of the index on `full_slug`."""
        # `0` is the character after `/`, so siblings whose slug begins with this comment's are not in the range.
        thread = {"full_slug": {"$gte": comment["full_slug"], "$lt": f"{comment['full_slug']}0"}}
        comments = queries.THREADED.find(self._db, **discussed.epoch_key, bounds=thread, limit=limit)
        return [public(comment) for comment in comments]

    def post(
        self,
        discussed: DiscussedNode,
        comment: Comment,
        parent: Comment | None,
        key: Key | None,
        also: Sequence[Step] = (),
    ) -> Comment:
        """Add a comment: one transaction checks the node, inserts the comment and counts the reply in its parent."""
        stored = {**comment, "epoch": discussed.discussion["epoch"]}
        steps = [node_step(discussed, 1), _step(comment, lambda _: Stale("the slug is taken"), insert=stored)]
        if parent:
            steps.append(_step(parent, reply_refused, guard={"deleted": None}, update={"$inc": {"num_replies": 1}}))
        return post_once(self._transactions, Plan(steps).also(also), comment, key)

    def change(
        self,
        discussed: DiscussedNode,
        comment: Comment,
        fields: Document,
        *,
        counted: int = 0,
        also: Sequence[Step] = (),
    ) -> None:
        """Change a comment: one transaction checks the node and updates the comment, whose version must match."""
        update = {"$set": fields, "$inc": {"version": 1}}
        steps = [node_step(discussed, counted), _step(comment, guard={"version": comment["version"]}, update=update)]
        self._transactions.run("change-comment", Plan(steps).also(also))

    def remove(self, discussed: DiscussedNode, comment: Comment, *, also: Sequence[Step] = ()) -> None:
        """Remove a comment: one transaction checks the node, deletes the comment and updates its parent's count."""
        # guard: a comment with replies is not removed
        deletion = _step(comment, guard={"version": comment["version"], "num_replies": 0}, delete=True)
        steps = [node_step(discussed, -1), deletion]
        if comment["parent_id"]:
            parent = self.get(discussed, comment["slug"].rpartition("/")[0])
            if parent:
                steps.append(_step(parent, update={"$inc": {"num_replies": -1}}))
        self._transactions.run("remove-comment", Plan(steps).also(also))

    def all(self, discussed: DiscussedNode) -> Iterator[Comment]:
        for comment in queries.CHRONOLOGICAL.find(self._db, **discussed.epoch_key, bounds={}):
            yield public(comment)


def _changed(_: Document | None) -> SquinneyError:
    return Stale("the comment has changed")


def _step(comment: Comment, refused: Refused = _changed, **change: Any) -> Step:
    route = {"node_id": comment["node_id"], "slug": comment["slug"]}
    return Step(COMMENTS, comment["_id"], route=route, refused=refused, **change)


def _bounds(sort: Sequence[tuple[str, int]], cursor: str | None, at: Comment | None) -> Document:
    """Return the filter for the first position of a page: at a comment, after a cursor, or at the beginning."""
    if at:
        return {name: {"$gte": at[name]} for name, _ in sort}  # type: ignore[literal-required]
    if not cursor:
        return {}
    keys = cursor_keys(sort, cursor)
    if not all(isinstance(value, datetime if name == "posted" else str) for name, value in keys.items()):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return {name: {"$gte" if name == "posted" else "$gt": value} for name, value in keys.items()}
