"""Comments in numbered pages of about a hundred: few documents, few bytes, no threads.

Within a page the order is that of time; across pages that of arrival. Those who write while a page becomes full still
write there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from squinney.content import queries
from squinney.content.comments.discussions import Order, Place, cannot, node_step, plain, recorded, repeated
from squinney.content.documents import COMMENTS_A_PAGE, PAGES, Comment
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, cursor_after, keys_of
from squinney.transactions import Plan, Stale, Step, Transactions
from squinney.transactions.turns import Turns

SORT = [("page", 1), ("_id", 1)]
_BY_ID = itemgetter("_id")


class Paged:
    """The `paged` strategy."""

    def __init__(self, db: Db, transactions: Transactions) -> None:
        self._db = db
        self._transactions = transactions
        self._turns = Turns()

    def page(self, place: Place, cursor: str | None, limit: int, order: Order, at: Comment | None) -> Page[Comment]:
        """One query for as many stored pages as the limit needs; `at` needs one more to find its page."""
        number, behind = _position(cursor) if cursor else (1, "")
        if at:
            number = self._page_of(place, at["slug"])["page"]
        pages = limit // COMMENTS_A_PAGE + 2
        # Cut here: a pipeline that sends only what is wanted of the first page took longer than it saved (1.4x to 2x).
        found = list(queries.PAGES_FROM.find(self._db, **place.key, number=number, limit=pages))
        items = [(stored["page"], comment) for stored in found for comment in _ordered(stored, number, behind, at)]
        next_ = None
        if len(items) > limit:
            next_ = _cursor(*items[limit - 1])
        elif len(found) == pages:  # deletions have thinned these pages out; there may be more behind them
            newest = max(found[-1]["comments"], key=_BY_ID, default={"_id": ""})
            next_ = _cursor(found[-1]["page"], newest)
        return Page([plain(comment) for _, comment in items[:limit]], next_)

    def get(self, place: Place, slug: str) -> Comment | None:
        """One query, by the index of slugs."""
        where = queries.PAGE_OF(**place.key, slug=slug)
        found = self._db[PAGES].find_one(where, {"comments": {"$elemMatch": {"slug": slug}}})
        return plain(found["comments"][0]) if found else None

    def below(self, place: Place, comment: Comment, limit: int) -> list[Comment]:
        """Refused: pages know no threads."""
        raise cannot("paged", "discussion")

    def post(self, place: Place, comment: Comment, parent: Comment | None, key: str | None, scope: str) -> Comment:
        """The node's guard and the last page, or a new page, in one transaction.

        Of the threads that find the last page full one makes the next, and the others look again.
        """
        if place.pages and not self._is_full(place, place.pages):
            return self._run(_push_steps(place, comment), comment, key, scope)
        with self._turns.of(place.node_id) as crowded:
            if crowded:
                raise Stale("the discussion has a new page")
            return self._run(self._new_page_steps(place, comment), comment, key, scope)

    def _run(self, steps: list[Step], comment: Comment, key: str | None, scope: str) -> Comment:
        arguments = {"node": comment["node_id"], "text": comment["text"]}
        plan = Plan(steps, result=recorded(comment))
        outcome = self._transactions.run("post-comment", plan, key=key, scope=scope, arguments=arguments)
        return repeated(outcome.result, comment)

    def _new_page_steps(self, place: Place, comment: Comment) -> list[Step]:
        number = place.pages + 1
        # A conversion that lost its claim may have left a page of that number.
        older = {"epoch": {"$lt": place.discussion["epoch"]}}
        self._db[PAGES].delete_many({"node_id": place.node_id, "page": number, **older})
        step = node_step(place, 1, guard={"metadata.num_comment_pages": place.pages}, num_comment_pages=1)
        return [step, _new_page(place, number, comment)]

    def _is_full(self, place: Place, number: int) -> bool:
        where = {"node_id": place.node_id, "page": number, "count": {"$gte": COMMENTS_A_PAGE}}
        return self._db[PAGES].find_one(where, {"_id": 1}) is not None

    def change(self, place: Place, comment: Comment, fields: Document, *, counted: int = 0) -> None:
        """The node's guard and the element, found by its version, in one transaction."""
        update = {
            "$set": {f"comments.$[c].{name}": value for name, value in fields.items()},
            "$inc": {"comments.$[c].version": 1},
        }
        self._transactions.run("change-comment", [node_step(place, counted), self._step(place, comment, update)])

    def remove(self, place: Place, comment: Comment) -> None:
        """The node's guard and the element, in one transaction. A reply kept from a thread stays as a tombstone."""
        update = {"$pull": {"comments": {"slug": comment["slug"]}}, "$inc": {"count": -1}}
        self._transactions.run("remove-comment", [node_step(place, -1), self._step(place, comment, update)])

    def _step(self, place: Place, comment: Comment, update: Document) -> Step:
        stored = self._page_of(place, comment["slug"])
        same = {"slug": comment["slug"], "version": comment["version"], "num_replies": comment["num_replies"]}
        return Step(
            PAGES,
            stored["_id"],
            route={"node_id": place.node_id, "page": stored["page"]},
            guard={"comments": {"$elemMatch": same}},
            give=update,
            array_filters=[{"c.slug": comment["slug"]}],
            refused=lambda _: Stale("the comment has changed"),
        )

    def _page_of(self, place: Place, slug: str) -> Document:
        found = self._db[PAGES].find_one(queries.PAGE_OF(**place.key, slug=slug), {"page": 1})
        if found is None:
            raise Stale("the comment has changed")
        return found

    def all(self, place: Place) -> Iterator[Comment]:
        """Page by page."""
        for stored in queries.PAGES_FROM.find(self._db, **place.key, number=1):
            yield from sorted((plain(comment) for comment in stored["comments"]), key=_BY_ID)


def page_id(node_id: str, epoch: int, number: int) -> str:
    """A page's id: of its epoch, so that pages of an unfinished conversion are never mistaken for live ones."""
    return f"{node_id}:{epoch}:{number}"


def _push_steps(place: Place, comment: Comment) -> list[Step]:
    """Onto the page that had room when it was looked at: if all who write at once were to look again, each page would
    cost as many refused transactions. It may be twice as long as it should be, and not more."""
    push = Step(
        PAGES,
        page_id(place.node_id, place.discussion["epoch"], place.pages),
        route={"node_id": place.node_id, "page": place.pages},
        guard={"count": {"$lt": 2 * COMMENTS_A_PAGE}},
        give={"$push": {"comments": comment}, "$inc": {"count": 1}},
        refused=lambda _: Stale("the page is full"),
    )
    return [node_step(place, 1), push]


def _new_page(place: Place, number: int, comment: Comment) -> Step:
    epoch = place.discussion["epoch"]
    stored = {"node_id": place.node_id, "page": number, "epoch": epoch, "count": 1, "comments": [comment]}
    return Step(
        PAGES,
        page_id(place.node_id, epoch, number),
        insert=stored,
        route={"node_id": place.node_id, "page": number},
        refused=lambda _: Stale("the page is there already"),
    )


def _ordered(stored: Document, number: int, behind: str, at: Comment | None) -> list[Document]:
    """A stored page's comments in the order of time; of the page `number`, those behind a place or from one on."""
    comments: list[Document] = sorted(stored["comments"], key=_BY_ID)
    if stored["page"] > number:
        return comments
    if at:
        return comments[bisect_left(comments, at["_id"], key=_BY_ID) :]
    return comments[bisect_right(comments, behind, key=_BY_ID) :]


def _cursor(number: int, comment: Document) -> str:
    return cursor_after(SORT, {"page": number, "_id": comment["_id"]})


def _position(cursor: str) -> tuple[int, str]:
    keys: dict[str, Any] = keys_of(SORT, cursor)
    number, behind = keys["page"], keys["_id"]
    if not isinstance(number, int) or not isinstance(behind, str):
        raise Invalid("cursor is not one that this list gave", field="cursor")
    return number, behind
