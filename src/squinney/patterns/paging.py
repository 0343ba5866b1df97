"""Lists in pages by keyset: a cursor holds the last item's sort keys, and the next page begins behind them.

The filter behind a cursor is an `$or` with one branch per sort key; the server scans the sorting index once per branch
and merges them in order, so that a page deep in a list costs as much as the first: no skip, no sort in memory. `$expr`
is what compares, because it orders values of all types (and null, and missing) exactly as a sort does, where plain
`$gt` never leaves the type of its operand.

A sort must end in a field that is unique within the list, such as `_id`. Its fields must not hold arrays or documents.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

import bson
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.errors import BSONError
from bson.int64 import Int64
from bson.objectid import ObjectId
from pymongo.client_session import ClientSession

from squinney import checks
from squinney.errors import Invalid
from squinney.mongo.paths import value_at
from squinney.mongo.pinned import CODEC
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db, Document

T = TypeVar("T")
U = TypeVar("U")
Sort = Sequence[tuple[str, int]]

LIMIT = 50
MOST_READS = 10
LONGEST_CURSOR = 16_384
PAGEABLE = {str, int, Int64, float, bool, bytes, Binary, UUID, datetime, ObjectId, Decimal128, type(None)}


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some items of a list, and the cursor that gives the next page; None when there is none."""

    items: list[T]
    next: str | None = None

    def map(self, change: Callable[[T], U]) -> Page[U]:
        """The same page with each item changed."""
        return Page([change(item) for item in self.items], self.next)


def page(
    db: Db,
    query: Query,
    *,
    cursor: str | None = None,
    limit: int = LIMIT,
    most: int = 200,
    projection: Mapping[str, Any] | None = None,
    session: ClientSession | None = None,
    **arguments: Any,
) -> Page[Document]:
    """The page of `query(**arguments)` behind `cursor`, in the query's order.

    Items that exist throughout a walk over the pages come exactly once; what is inserted or removed meanwhile may or
    may not be seen. A projection must keep the sort's fields.

    Atomic: one read.
    After a crash: nothing remains.
    Raises: `Invalid` for a cursor that is not one of this list's, or a limit outside 1 to `most`.
    """
    limit = checks.integer(limit, "limit", least=1, most=most)
    if projection and not all(_keeps(projection, field) for field, _ in query.sort):
        raise ValueError(f"the projection must keep what {query.name} is sorted by")
    where = query(**arguments)
    if cursor is not None:
        where = {"$and": [where, after(query.sort, cursor)]}
    found = db[query.collection].find(where, projection, limit=limit + 1, session=session).sort(list(query.sort))
    return page_from(list(found), query.sort, limit=limit)


def page_from(found: list[Document], sort: Sort, *, limit: int) -> Page[Document]:
    """The page that `limit + 1` found documents make: the extra one only says that there is more."""
    items = found[:limit]
    return Page(items, cursor_after(sort, items[-1]) if len(found) > limit else None)


def all_items(read: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """Every item of a list, whose pages `read` gives by their cursors."""
    cursor = None
    while True:
        found = read(cursor)
        yield from found.items
        if (cursor := found.next) is None:
            return


def filtered_page(
    read: Callable[[str | None], Page[T]],
    keep: Callable[[list[T]], list[T]],
    sort: Sort,
    cursor: str | None,
    limit: int,
) -> Page[T]:
    """A page of those items of a list that `keep` keeps: reads on, at most ten times, until it is full."""
    items: list[T] = []
    for _ in range(MOST_READS):
        found = read(cursor)
        for item in keep(found.items):
            items.append(item)
            if len(items) == limit:
                last = item is found.items[-1] and found.next is None
                return Page(items, None if last else cursor_after(sort, cast(Mapping[str, Any], item)))
        cursor = found.next
        if cursor is None:
            break
    return Page(items, cursor)


def cursor_after(sort: Sort, item: Mapping[str, Any]) -> str:
    """The cursor of a list in this order that continues behind `item`.

    Raises: `TypeError` where a sort key of the item is an array or a document, which has no place in an order.
    """
    keys = {field: value_at(item, field) for field, _ in sort}
    for field, value in keys.items():
        if type(value) not in PAGEABLE:
            raise TypeError(f"cannot page by {field}: it holds a {type(value).__name__}")
    return base64.urlsafe_b64encode(bson.encode(keys, codec_options=CODEC)).rstrip(b"=").decode()


def after(sort: Sort, cursor: str) -> Document:
    """The filter for what comes behind `cursor` in this order, to be combined with the list's own by `$and`.

    Raises: `Invalid` for anything that `cursor_after` did not make for these fields.
    """
    keys = cursor_keys(sort, cursor)
    branches: list[Document] = []
    ties: Document = {}
    for field, direction in sort:
        beyond = {"$gt" if direction > 0 else "$lt": [f"${field}", {"$literal": keys[field]}]}
        if direction > 0 or keys[field] is not None:  # nothing sorts below null, but to $expr a missing field is less
            branches.append({**ties, "$expr": beyond})
        ties = {**ties, field: keys[field]}
    return {"$or": branches} if branches else {"_id": {"$in": []}}


def _keeps(projection: Mapping[str, Any], path: str) -> bool:
    named = [shown for name, shown in projection.items() if f"{path}.".startswith(f"{name}.")]
    if path.split(".")[0] == "_id" or not any(shown for name, shown in projection.items() if name != "_id"):
        return all(named)
    return any(named)


def cursor_keys(sort: Sort, cursor: Any) -> Document:
    """The sort keys of the item behind which `cursor` continues.

    Raises: `Invalid` for anything that `cursor_after` did not make for these fields.
    """
    if not isinstance(cursor, str) or len(cursor) > LONGEST_CURSOR:
        raise _malformed()
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        keys = bson.decode(packed, CODEC)
    except (binascii.Error, ValueError, OverflowError, BSONError):
        raise _malformed() from None
    if keys.keys() != dict(sort).keys() or not {type(value) for value in keys.values()} <= PAGEABLE:
        raise _malformed()
    return keys


def _malformed() -> Invalid:
    return Invalid("cursor is not one that this list gave", field="cursor")
