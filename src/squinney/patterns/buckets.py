"""Long lists as bounded arrays in numbered pages: a hundred items a document, so that a screenful is one read.

    PAGES = Buckets("comment_pages", owner=("node_id",), items="comments", size=100, key="slug")
    Collection("comment_pages", indexes=PAGES.indexes(), ...)
    PAGES.append(db, {"node_id": node_id}, comment)

A page is `{_id, **owner, page, count, items: [...]}`. `count` is how many items were ever put in: a page that has been
full takes no more, even when items are removed, so that items keep the order in which they came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from squinney.errors import Unavailable
from squinney.mongo.prepared import require_unique
from squinney.mongo.queries import Query
from squinney.mongo.schema import Collection, Db, Document, Index
from squinney.patterns import paging
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page

ATTEMPTS = 200


@dataclass(frozen=True)
class Buckets:
    """Where the pages are, whose they are, and how many items one holds.

    With a `key`, the items of one owner are unique by that field, on all pages. With an `order`, such as `{"ts": 1}`,
    a page keeps its items sorted by it.
    """

    collection: str
    owner: tuple[str, ...]
    items: str
    size: int = 100
    key: str | None = None
    order: Mapping[str, int] | None = None

    def indexes(self) -> list[Index]:
        """What keeps page numbers, and keys, unique; `append` relies on them."""
        owner = [(name, 1) for name in self.owner]
        pages = Index([*owner, ("page", 1)], unique=True, why="pages in order; no page is made twice")
        if self.key is None:
            return [pages]
        path = f"{self.items}.{self.key}"
        # Partial, because two pages that have lost all their items would both count as having no key.
        keys = Index([*owner, (path, 1)], unique=True, partial={path: {"$exists": True}}, why="no item comes twice")
        return [pages, keys]

    def queries(self, example: Mapping[str, Any]) -> list[Query]:
        """The reads that this pattern makes, to be declared among a system's own; `example` is an owner."""
        mine = {"owner": dict(example)}
        listed = [self._listed(1, mine), self._listed(-1, mine)]
        if self.key is None:
            return listed
        holding = Query(f"{self.collection}-holding", self.collection, self._holding, {**mine, "key": "example"})
        return [*listed, holding]

    def append(self, db: Db, owner: Mapping[str, Any], item: Document, *, session: ClientSession | None = None) -> int:
        """Put the item on the owner's last page, or on a new one when that is full; return the page's number.

        An item whose key is there already is left as it is, so that a repeat does no harm; the number is its page's.
        In a transaction (`session`) a collision ends the transaction with the driver's transient error: run it again.

        Atomic: one update, which also makes the page; the unique indexes decide between writers.
        After a crash: the item is there or not.
        Raises: `Unavailable` if others were faster 200 times in a row, `NotPrepared` without those indexes.
        """
        require_unique(db, self.collection, [Collection(self.collection, indexes=self.indexes())])
        for _ in range(ATTEMPTS):
            there = self._page_holding(db, owner, item, session) if session else None
            if there is not None:
                return there
            number = self._open_page(db, owner, session)
            try:
                self._put(db, owner, number, item, session)
            except DuplicateKeyError:  # filled or made by others meanwhile, or the item is there already
                if session:
                    raise
                there = self._page_holding(db, owner, item, None)
                if there is not None:
                    return there
            else:
                return number
        raise Unavailable(f"too many writers at once on {self.collection}")

    def remove(self, db: Db, owner: Mapping[str, Any], key: Any, *, session: ClientSession | None = None) -> bool:
        """Take the item with this key out; False if there is none.

        Atomic: one update.
        After a crash: the item is there or not.
        """
        pull = {"$pull": {self.items: {str(self.key): key}}}
        changed = db[self.collection].update_one(self._holding(dict(owner), key), pull, session=session)
        return changed.modified_count == 1

    def read(
        self,
        db: Db,
        owner: Mapping[str, Any],
        *,
        cursor: str | None = None,
        newest_first: bool = False,
        session: ClientSession | None = None,
    ) -> Page[Document]:
        """The items of one page; the cursor goes on to the next, or with `newest_first` to the one before.

        Atomic: one read.
        After a crash: nothing remains.
        Raises: `Invalid` for a cursor that is not one of this list's.
        """
        listed = self._listed(-1 if newest_first else 1, {})
        found = paging.page(db, listed, cursor=cursor, limit=1, session=session, owner=dict(owner))
        items = found.items[0][self.items] if found.items else []
        return Page(items[::-1] if newest_first else items, found.next)

    def _listed(self, direction: int, example: Mapping[str, Any]) -> Query:
        name = f"{self.collection}-{'oldest' if direction > 0 else 'newest'}-first"
        return Query(name, self.collection, lambda owner: dict(owner), example, sort=[("page", direction)])

    def _holding(self, owner: Document, key: Any) -> Document:
        return {**owner, f"{self.items}.{self.key}": key}

    def _page_holding(self, db: Db, owner: Mapping[str, Any], item: Document, session: Any) -> int | None:
        if self.key is None:
            return None
        where = self._holding(dict(owner), item[self.key])
        found = db[self.collection].find_one(where, {"page": 1}, session=session)
        return found["page"] if found else None

    def _open_page(self, db: Db, owner: Mapping[str, Any], session: Any) -> int:
        last = self._listed(-1, {}).find(db, limit=1, projection={"page": 1, "count": 1}, session=session, owner=owner)
        newest = next(iter(last), {"page": 0, "count": self.size})
        return int(newest["page"]) + (newest["count"] >= self.size)

    def _put(self, db: Db, owner: Mapping[str, Any], number: int, item: Document, session: Any) -> None:
        """Push to the page if it has room. If not, the upsert tries to make it a second time and is refused."""
        push: Document = {"$each": [item], **({"$sort": dict(self.order)} if self.order else {})}
        without = {f"{self.items}.{self.key}": {"$ne": item[self.key]}} if self.key else {}
        db[self.collection].update_one(
            {**owner, "page": number, "count": {"$lt": self.size}, **without},
            {"$push": {self.items: push}, "$inc": {"count": 1}, "$setOnInsert": {"_id": new_id()}},
            upsert=True,
            session=session,
        )
