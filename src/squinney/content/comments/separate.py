"""Comments as documents of their own: threads, pages of any size, lists by author."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from squinney.content.comments import queries
from squinney.content.comments.discussions import (
    DiscussedNode,
    Order,
    node_step,
    plain,
    post_once,
    unanswerable,
)
from squinney.content.comments.documents import COMMENTS, Comment
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, cursor_keys, page_from
from squinney.transactions import Key, Stale, Step, Transactions


class Separate:
    """The `separate` strategy."""

    def __init__(self, db: Db, transactions: Transactions) -> None:
        self._db = db
        self._transactions = transactions

    def page(
        self, discussed: DiscussedNode, cursor: str | None, limit: int, order: Order, at: Comment | None
    ) -> Page[Comment]:
        """One query, whatever the page."""
        query = queries.CHRONOLOGICAL if order == "chronological" else queries.THREADED
        found = query.find(self._db, limit=limit + 1, **discussed.key, bounds=_bounds(query.sort, cursor, at))
        return page_from(list(found), query.sort, limit=limit).map(plain)

    def get(self, discussed: DiscussedNode, slug: str) -> Comment | None:
        """One query."""
        found = self._db[COMMENTS].find_one(queries.COMMENT(**discussed.key, slug=slug))
        return plain(found) if found else None

    def below(self, discussed: DiscussedNode, comment: Comment, limit: int) -> list[Comment]:
        """One query over a range of the thread's index."""
        # `0` is the character behind `/`, so no sibling with a longer slug is met.
        thread = {"full_slug": {"$gte": comment["full_slug"], "$lt": f"{comment['full_slug']}0"}}
        found = queries.THREADED.find(self._db, **discussed.key, bounds=thread, limit=limit)
        return [plain(comment) for comment in found]

    def post(self, discussed: DiscussedNode, comment: Comment, parent: Comment | None, key: Key | None) -> Comment:
        """The node's guard, the comment, and one more reply for its parent, in one transaction."""
        steps = [node_step(discussed, 1), self._insert(discussed, comment)]
        if parent:
            steps.append(self._step(parent, {"deleted": None}, {"$inc": {"num_replies": 1}}, refused=unanswerable))
        return post_once(self._transactions, steps, comment, key)

    def _insert(self, discussed: DiscussedNode, comment: Comment) -> Step:
        return Step(
            COMMENTS,
            comment["_id"],
            insert={**comment, "epoch": discussed.discussion["epoch"]},
            route={"node_id": discussed.node_id, "slug": comment["slug"]},
            refused=lambda _: Stale("the slug is taken"),
        )

    def change(self, discussed: DiscussedNode, comment: Comment, fields: Document, *, counted: int = 0) -> None:
        """The node's guard and the comment, found by its version, in one transaction."""
        update = {"$set": fields, "$inc": {"version": 1}}
        steps = [node_step(discussed, counted), self._step(comment, {"version": comment["version"]}, update)]
        self._transactions.run("change-comment", steps)

    def remove(self, discussed: DiscussedNode, comment: Comment) -> None:
        """The node's guard, the comment, and one reply less for its parent, in one transaction."""
        deletion = Step(
            COMMENTS,
            comment["_id"],
            route={"node_id": discussed.node_id, "slug": comment["slug"]},
            guard={"version": comment["version"], "num_replies": 0},
            delete=True,
            refused=lambda _: Stale("the comment has changed"),
        )
        steps = [node_step(discussed, -1), deletion]
        if comment["parent_id"]:
            parent = self.get(discussed, comment["slug"].rpartition("/")[0])
            if parent:
                steps.append(self._step(parent, {}, {"$inc": {"num_replies": -1}}))
        self._transactions.run("remove-comment", steps)

    def _step(self, comment: Comment, guard: Document, update: Document, *, refused: object = None) -> Step:
        return Step(
            COMMENTS,
            comment["_id"],
            route={"node_id": comment["node_id"], "slug": comment["slug"]},
            guard=guard,
            give=update,
            refused=refused or (lambda _: Stale("the comment has changed")),  # type: ignore[arg-type]
        )

    def all(self, discussed: DiscussedNode) -> Iterator[Comment]:
        """By the index of times."""
        for comment in queries.CHRONOLOGICAL.find(self._db, **discussed.key, bounds={}):
            yield plain(comment)


def _bounds(sort: Sequence[tuple[str, int]], cursor: str | None, at: Comment | None) -> Document:
    """The place in an order where a page begins: at a comment, behind a cursor, or at its beginning."""
    if at:
        return {name: {"$gte": at[name]} for name, _ in sort}  # type: ignore[literal-required]
    if not cursor:
        return {}
    keys = cursor_keys(sort, cursor)
    if not all(isinstance(value, datetime if name == "posted" else str) for name, value in keys.items()):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return {name: {"$gte" if name == "posted" else "$gt": value} for name, value in keys.items()}
