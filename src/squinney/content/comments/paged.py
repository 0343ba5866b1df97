"""The `paged` strategy: numbered documents of about 100 comments each. Few documents, few bytes, no threads.

Comments within a stored page are in chronological order, and pages are in the order of arrival. Writers that have
read a page's count before the page is full still add to that page.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from squinney.content.comments import queries
from squinney.content.comments.discussions import DiscussedNode, Order, node_step, post_once, public, strategy_cannot
from squinney.content.comments.documents import COMMENTS_A_PAGE, PAGES
from squinney.content.documents import Comment
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document
from squinney.patterns.fair_locks import FairLocks
from squinney.patterns.paging import Page, cursor_after, cursor_keys
from squinney.transactions import Key, Plan, Stale, Step, Transactions

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
        """Return a page of comments with one query; `at` needs another one to find its stored page."""
        number, after = _position(cursor) if cursor else (1, "")
        if at:
            number = self._page_of(discussed, at["slug"])
        pages = limit // COMMENTS_A_PAGE + 2
        # Cut in Python: a pipeline that cuts the first stored page on the server took 1.4 to 2 times as long.
        read = list(queries.PAGES_FROM.find(self._db, **discussed.epoch_key, number=number, limit=pages))
        items = [(stored["page"], comment) for stored in read for comment in _ordered(stored, number, after, at)]
        next_ = None
        if len(items) > limit:
            next_ = _cursor(*items[limit - 1])
        elif len(read) == pages:  # these pages are short because of deletions; there may be more pages
            newest = max(read[-1]["comments"], key=_BY_ID, default={"_id": ""})
            next_ = _cursor(read[-1]["page"], newest)
        return Page([public(comment) for _, comment in items[:limit]], next_)

    def get(self, discussed: DiscussedNode, slug: str) -> Comment | None:
        where = queries.PAGE_OF(**discussed.epoch_key, slug=slug)
        page = self._db[PAGES].find_one(where, {"comments": {"$elemMatch": {"slug": slug}}})
        return public(page["comments"][0]) if page else None

    def thread(self, discussed: DiscussedNode, comment: Comment, limit: int) -> list[Comment]:
        """Raise `StrategyCannot`: the strategy has no threads."""
        raise strategy_cannot("paged", "discussion")

    def post(
        self,
        discussed: DiscussedNode,
        comment: Comment,
        parent: Comment | None,
        key: Key | None,
        also: Sequence[Step] = (),
    ) -> Comment:
        """Add a comment: one transaction checks the node and pushes to its last page, or inserts a new page.

        If several threads find the last page full, one of them adds a page and the others start again.
        """
        if discussed.pages and not self._is_full(discussed, discussed.pages):
            # The page may have become full since. Checking again would refuse the transactions of all concurrent
            # writers whenever a page becomes full, so a page may grow to twice its size, but not more.
            push = _step(
                discussed,
                discussed.pages,
                "the page is full",
                guard={"count": {"$lt": 2 * COMMENTS_A_PAGE}},
                update={"$push": {"comments": comment}, "$inc": {"count": 1}},
            )
            return post_once(self._transactions, Plan([node_step(discussed, 1), push]).also(also), comment, key)
        with self._fair_locks.hold(discussed.node_id) as crowded:
            if crowded:
                raise Stale("the discussion has a new page")
            plan = Plan(self._new_page_steps(discussed, comment)).also(also)
            return post_once(self._transactions, plan, comment, key)

    def _new_page_steps(self, discussed: DiscussedNode, comment: Comment) -> list[Step]:
        number = discussed.pages + 1
        # An abandoned conversion may have left a page with this number.
        older = {"epoch": {"$lt": discussed.discussion["epoch"]}}
        self._db[PAGES].delete_many({"node_id": discussed.node_id, "page": number, **older})
        step = node_step(discussed, 1, guard={"metadata.num_comment_pages": discussed.pages}, num_comment_pages=1)
        stored = {**discussed.epoch_key, "page": number, "count": 1, "comments": [comment]}
        return [step, _step(discussed, number, "the page already exists", insert=stored)]

    def _is_full(self, discussed: DiscussedNode, number: int) -> bool:
        where = {"node_id": discussed.node_id, "page": number, "count": {"$gte": COMMENTS_A_PAGE}}
        return self._db[PAGES].find_one(where, {"_id": 1}) is not None

    def change(
        self,
        discussed: DiscussedNode,
        comment: Comment,
        fields: Document,
        *,
        counted: int = 0,
        also: Sequence[Step] = (),
    ) -> None:
        """Change a comment: one transaction checks the node and updates the element, whose version must match."""
        update = {
            "$set": {f"comments.$[c].{name}": value for name, value in fields.items()},
            "$inc": {"comments.$[c].version": 1},
        }
        steps = [node_step(discussed, counted), self._comment_step(discussed, comment, update)]
        self._transactions.run("change-comment", Plan(steps).also(also))

    def remove(self, discussed: DiscussedNode, comment: Comment, *, also: Sequence[Step] = ()) -> None:
        """Remove a comment: one transaction checks the node and removes the element."""
        update = {"$pull": {"comments": {"slug": comment["slug"]}}, "$inc": {"count": -1}}
        steps = [node_step(discussed, -1), self._comment_step(discussed, comment, update)]
        self._transactions.run("remove-comment", Plan(steps).also(also))

    def _comment_step(self, discussed: DiscussedNode, comment: Comment, update: Document) -> Step:
        unchanged = {"slug": comment["slug"], "version": comment["version"], "num_replies": comment["num_replies"]}
        return _step(
            discussed,
            self._page_of(discussed, comment["slug"]),
            "the comment has changed",
            guard={"comments": {"$elemMatch": unchanged}},
            update=update,
            array_filters=[{"c.slug": comment["slug"]}],
        )

    def _page_of(self, discussed: DiscussedNode, slug: str) -> int:
        stored = queries.PAGE_OF.find_one(self._db, **discussed.epoch_key, slug=slug, projection={"page": 1})
        if stored is None:
            raise Stale("the comment has changed")
        return int(stored["page"])

    def all(self, discussed: DiscussedNode) -> Iterator[Comment]:
        """Yield all comments, stored page by stored page."""
        for stored in queries.PAGES_FROM.find(self._db, **discussed.epoch_key, number=1):
            yield from sorted((public(comment) for comment in stored["comments"]), key=_BY_ID)


def page_id(node_id: str, epoch: int, number: int) -> str:
    """Return a page's id. It includes the epoch, so that copies of an unfinished conversion have other ids."""
    return f"{node_id}:{epoch}:{number}"


def _step(discussed: DiscussedNode, number: int, refused: str, **change: Any) -> Step:
    """Return the step that changes a page, or raises `Stale` with the message `refused`."""
    page = page_id(discussed.node_id, discussed.discussion["epoch"], number)
    route = {"node_id": discussed.node_id, "page": number}
    return Step(PAGES, page, route=route, refused=lambda _: Stale(refused), **change)


def _ordered(stored: Document, number: int, after: str, at: Comment | None) -> list[Document]:
    """Return a page's comments in chronological order; of page `number`, those after an id or from a comment on."""
    comments: list[Document] = sorted(stored["comments"], key=_BY_ID)
    if stored["page"] > number:
        return comments
    if at:
        return comments[bisect_left(comments, at["_id"], key=_BY_ID) :]
    return comments[bisect_right(comments, after, key=_BY_ID) :]


def _cursor(number: int, comment: Document) -> str:
    return cursor_after(SORT, {"page": number, "_id": comment["_id"]})


def _position(cursor: str) -> tuple[int, str]:
    keys: dict[str, Any] = cursor_keys(SORT, cursor)
    number, after = keys["page"], keys["_id"]
    if not isinstance(number, int) or not isinstance(after, str):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return number, after
