"""Comments in numbered pages of about a hundred: few documents, few bytes, no threads.

Within a page the order is that of time; across pages that of arrival. Those who write while a page becomes full still
write there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from squinney.content.comments import queries
from squinney.content.comments.discussions import DiscussedNode, Order, cannot, node_step, plain, post_once
from squinney.content.comments.documents import COMMENTS_A_PAGE, PAGES, Comment
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document
from squinney.patterns.fair_locks import FairLocks
from squinney.patterns.paging import Page, cursor_after, cursor_keys
from squinney.transactions import Key, Stale, Step, Transactions

SORT = [("page", 1), ("_id", 1)]
_BY_ID = itemgetter("_id")


class Paged:
    """The `paged` strategy."""

    def __init__(self, db: Db, transactions: Transactions) -> None:
        self._db = db
        self._transactions = transactions
        self._fair_locks = FairLocks()

    def page(
        self, discussed: DiscussedNode, cursor: str | None, limit: int, order: Order, at: Comment | None
    ) -> Page[Comment]:
        """One query for as many stored pages as the limit needs; `at` needs one more to find its page."""
        number, behind = _position(cursor) if cursor else (1, "")
        if at:
            number = self._page_of(discussed, at["slug"])["page"]
        pages = limit // COMMENTS_A_PAGE + 2
        # Cut here: a pipeline that sends only what is wanted of the first page took longer than it saved (1.4x to 2x).
        found = list(queries.PAGES_FROM.find(self._db, **discussed.key, number=number, limit=pages))
        items = [(stored["page"], comment) for stored in found for comment in _ordered(stored, number, behind, at)]
        next_ = None
        if len(items) > limit:
            next_ = _cursor(*items[limit - 1])
        elif len(found) == pages:  # deletions have thinned these pages out; there may be more behind them
            newest = max(found[-1]["comments"], key=_BY_ID, default={"_id": ""})
            next_ = _cursor(found[-1]["page"], newest)
        return Page([plain(comment) for _, comment in items[:limit]], next_)

    def get(self, discussed: DiscussedNode, slug: str) -> Comment | None:
        """One query, by the index of slugs."""
        where = queries.PAGE_OF(**discussed.key, slug=slug)
        found = self._db[PAGES].find_one(where, {"comments": {"$elemMatch": {"slug": slug}}})
        return plain(found["comments"][0]) if found else None

    def below(self, discussed: DiscussedNode, comment: Comment, limit: int) -> list[Comment]:
        """Refused: pages know no threads."""
        raise cannot("paged", "discussion")

    def post(self, discussed: DiscussedNode, comment: Comment, parent: Comment | None, key: Key | None) -> Comment:
        """The node's guard and the last page, or a new page, in one transaction.

        Of the threads that find the last page full one makes the next, and the others look again.
        """
        if discussed.pages and not self._is_full(discussed, discussed.pages):
            return post_once(self._transactions, _push_steps(discussed, comment), comment, key)
        with self._fair_locks.hold(discussed.node_id) as crowded:
            if crowded:
                raise Stale("the discussion has a new page")
            return post_once(self._transactions, self._new_page_steps(discussed, comment), comment, key)

    def _new_page_steps(self, discussed: DiscussedNode, comment: Comment) -> list[Step]:
        number = discussed.pages + 1
        # A conversion that lost its claim may have left a page of that number.
        older = {"epoch": {"$lt": discussed.discussion["epoch"]}}
        self._db[PAGES].delete_many({"node_id": discussed.node_id, "page": number, **older})
        step = node_step(discussed, 1, guard={"metadata.num_comment_pages": discussed.pages}, num_comment_pages=1)
        return [step, _new_page(discussed, number, comment)]

    def _is_full(self, discussed: DiscussedNode, number: int) -> bool:
        where = {"node_id": discussed.node_id, "page": number, "count": {"$gte": COMMENTS_A_PAGE}}
        return self._db[PAGES].find_one(where, {"_id": 1}) is not None

    def change(self, discussed: DiscussedNode, comment: Comment, fields: Document, *, counted: int = 0) -> None:
        """The node's guard and the element, found by its version, in one transaction."""
        update = {
            "$set": {f"comments.$[c].{name}": value for name, value in fields.items()},
            "$inc": {"comments.$[c].version": 1},
        }
        self._transactions.run(
            "change-comment", [node_step(discussed, counted), self._step(discussed, comment, update)]
        )

    def remove(self, discussed: DiscussedNode, comment: Comment) -> None:
        """The node's guard and the element, in one transaction. A reply kept from a thread stays as a tombstone."""
        update = {"$pull": {"comments": {"slug": comment["slug"]}}, "$inc": {"count": -1}}
        self._transactions.run("remove-comment", [node_step(discussed, -1), self._step(discussed, comment, update)])

    def _step(self, discussed: DiscussedNode, comment: Comment, update: Document) -> Step:
        stored = self._page_of(discussed, comment["slug"])
        same = {"slug": comment["slug"], "version": comment["version"], "num_replies": comment["num_replies"]}
        return Step(
            PAGES,
            stored["_id"],
            route={"node_id": discussed.node_id, "page": stored["page"]},
            guard={"comments": {"$elemMatch": same}},
            give=update,
            array_filters=[{"c.slug": comment["slug"]}],
            refused=lambda _: Stale("the comment has changed"),
        )

    def _page_of(self, discussed: DiscussedNode, slug: str) -> Document:
        found = self._db[PAGES].find_one(queries.PAGE_OF(**discussed.key, slug=slug), {"page": 1})
        if found is None:
            raise Stale("the comment has changed")
        return found

    def all(self, discussed: DiscussedNode) -> Iterator[Comment]:
        """Page by page."""
        for stored in queries.PAGES_FROM.find(self._db, **discussed.key, number=1):
            yield from sorted((plain(comment) for comment in stored["comments"]), key=_BY_ID)


def page_id(node_id: str, epoch: int, number: int) -> str:
    """A page's id: of its epoch, so that pages of an unfinished conversion are never mistaken for live ones."""
    return f"{node_id}:{epoch}:{number}"


def _push_steps(discussed: DiscussedNode, comment: Comment) -> list[Step]:
    """Onto the page that had room when it was looked at: if all who write at once were to look again, each page would
    cost as many refused transactions. It may be twice as long as it should be, and not more."""
    push = Step(
        PAGES,
        page_id(discussed.node_id, discussed.discussion["epoch"], discussed.pages),
        route={"node_id": discussed.node_id, "page": discussed.pages},
        guard={"count": {"$lt": 2 * COMMENTS_A_PAGE}},
        give={"$push": {"comments": comment}, "$inc": {"count": 1}},
        refused=lambda _: Stale("the page is full"),
    )
    return [node_step(discussed, 1), push]


def _new_page(discussed: DiscussedNode, number: int, comment: Comment) -> Step:
    epoch = discussed.discussion["epoch"]
    stored = {"node_id": discussed.node_id, "page": number, "epoch": epoch, "count": 1, "comments": [comment]}
    return Step(
        PAGES,
        page_id(discussed.node_id, epoch, number),
        insert=stored,
        route={"node_id": discussed.node_id, "page": number},
        refused=lambda _: Stale("the page is there already"),
    )


def _ordered(stored: Document, number: int, behind: str, at: Comment | None) -> list[Document]:
    """A stored page's comments in the order of time; of the page `number`, those behind a cursor or from one on."""
    comments: list[Document] = sorted(stored["comments"], key=_BY_ID)
    if stored["page"] > number:
        return comments
    if at:
        return comments[bisect_left(comments, at["_id"], key=_BY_ID) :]
    return comments[bisect_right(comments, behind, key=_BY_ID) :]


def _cursor(number: int, comment: Document) -> str:
    return cursor_after(SORT, {"page": number, "_id": comment["_id"]})


def _position(cursor: str) -> tuple[int, str]:
    keys: dict[str, Any] = cursor_keys(SORT, cursor)
    number, behind = keys["page"], keys["_id"]
    if not isinstance(number, int) or not isinstance(behind, str):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return number, behind
