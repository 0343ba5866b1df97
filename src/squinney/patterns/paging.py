"""Keyset paging: a cursor contains the sort keys of a page's last item, and the next page starts after them.

The filter for a cursor is an `$or` with one branch per sort key. The server scans the sort index once per branch and
merges the branches in order, so that a page deep in a list costs as much as the first, without skip or a sort in
memory. The branches compare by `$expr`, which orders values of all types (and null, and missing) exactly as a sort
does; a plain `$gt` compares only values of one type.

A sort must end with a field that is unique within the list, such as `_id`. Sort fields must not be arrays or documents.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

import bson
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.errors import BSONError
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp
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
MAX_READS = 10
MAX_CURSOR_LENGTH = 16_384
PAGEABLE = {str, int, Int64, float, bool, bytes, Binary, UUID, datetime, Timestamp, ObjectId, Decimal128, type(None)}


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list, and the cursor of the next page; None after the last page."""

    items: list[T]
    next: str | None = None

    def map(self, change: Callable[[T], U]) -> Page[U]:
        """Return the page with each item changed by a function."""
        return Page([change(item) for item in self.items], self.next)


def page(
    db: Db,
    query: Query,
    *,
    cursor: str | None = None,
    limit: int = LIMIT,
    max_limit: int = 200,
    projection: Mapping[str, Any] | None = None,
    session: ClientSession | None = None,
    **arguments: Any,
) -> Page[Document]:
    """Return the page of `query(**arguments)` after `cursor`, in the query's order.

    An item that exists while all pages are read is returned exactly once. An item that is inserted or deleted meanwhile
    may or may not be returned. A projection must include the sort fields.

    Raises: `Invalid` for a cursor of another list, or a limit outside 1 to `max_limit`.
    """
    # guard: the limit of a page is checked
    limit = checks.integer(limit, "limit", minimum=1, maximum=max_limit)
    # guard: a projection must include the sort fields
    if projection and not all(_keeps(projection, field) for field, _ in query.sort):
        raise ValueError(f"the projection must include the sort fields of {query.name}")
    where = query(**arguments)
    if cursor is not None:
        # guard: a page starts after its cursor
        where = {"$and": [where, after(query.sort, cursor)]}
    # guard: an extra document shows whether there is a next page
    documents = replace(query, where=lambda: where).find(db, limit=limit + 1, projection=projection, session=session)
    return page_from(list(documents), query.sort, limit=limit)


def page_from(documents: list[Document], sort: Sort, *, limit: int) -> Page[Document]:
    """Make a page of up to `limit + 1` documents; the extra one only shows that there is a next page."""
    items = documents[:limit]
    return Page(items, cursor_after(sort, items[-1]) if len(documents) > limit else None)


def all_items(read: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """Yield every item of a list; `read` returns the page of a cursor."""
    cursor = None
    while True:
        page = read(cursor)
        yield from page.items
        if (cursor := page.next) is None:
            return


def filtered_page(
    read: Callable[[str | None], Page[T]],
    keep: Callable[[list[T]], list[T]],
    sort: Sort,
    cursor: str | None,
    limit: int,
) -> Page[T]:
    """Return a page of the items that `keep` selects; reads at most `MAX_READS` pages to fill it."""
    items: list[T] = []
    for _ in range(MAX_READS):
        page = read(cursor)
        for item in keep(page.items):
            items.append(item)
            if len(items) == limit:
                last = item is page.items[-1] and page.next is None
                return Page(items, None if last else cursor_after(sort, cast(Mapping[str, Any], item)))
        cursor = page.next
        if cursor is None:
            break
    return Page(items, cursor)


def without_damaged(page: Page[T], is_whole: Callable[[T], bool]) -> tuple[Page[T], int]:
    """Return the page without its damaged items, and the number of items left out, so that one cannot break a list."""
    kept = [item for item in page.items if is_whole(item)]
    return Page(kept, page.next), len(page.items) - len(kept)


def cursor_after(sort: Sort, item: Mapping[str, Any]) -> str:
    """Return the cursor that continues a list in this order after `item`.

    Raises: `TypeError` if a sort key of the item is an array or a document, which cannot be ordered here.
    """
    keys = {field: value_at(item, field) for field, _ in sort}
    for field, value in keys.items():
        # guard: sort keys must not be arrays or documents
        if type(value) not in PAGEABLE:
            raise TypeError(f"cannot page by {field}: it holds a {type(value).__name__}")
    return base64.urlsafe_b64encode(bson.encode(keys, codec_options=CODEC)).rstrip(b"=").decode()


def after(sort: Sort, cursor: str) -> Document:
    """Return the filter for items after `cursor` in this order, to be combined with the list's own filter by `$and`.

    Raises: `Invalid` for a cursor that `cursor_after` did not make for these fields.
    """
    keys = cursor_keys(sort, cursor)
    branches: list[Document] = []
    ties: Document = {}
    for field, direction in sort:
        # guard: values of a cursor are not evaluated as expressions
        beyond = {"$gt" if direction > 0 else "$lt": [f"${field}", {"$literal": keys[field]}]}
        # guard: nothing sorts before null
        if direction > 0 or keys[field] is not None:  # nothing sorts before null, but $expr puts a missing field there
            branches.append({**ties, "$expr": beyond})
        # guard: ties are broken by the next field
        ties = {**ties, field: keys[field]}
    return {"$or": branches} if branches else {"_id": {"$in": []}}


def _keeps(projection: Mapping[str, Any], path: str) -> bool:
    named = [shown for name, shown in projection.items() if f"{path}.".startswith(f"{name}.")]
    if path.split(".")[0] == "_id" or not any(shown for name, shown in projection.items() if name != "_id"):
        return all(named)
    return any(named)


def cursor_keys(sort: Sort, cursor: Any) -> Document:
    """Return the sort keys of the item after which `cursor` continues.

    Raises: `Invalid` for a cursor that `cursor_after` did not make for these fields.
    """
    # guard: a cursor has a maximum length
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR_LENGTH:
        raise _malformed()
    try:
        # guard: a cursor is decoded strictly
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        keys = bson.decode(packed, CODEC)
    except (binascii.Error, ValueError, OverflowError, BSONError):
        raise _malformed() from None
    # guard: a cursor with arrays or documents is rejected
    # guard: a cursor of another list is rejected
    if keys.keys() != dict(sort).keys() or not {type(value) for value in keys.values()} <= PAGEABLE:
        raise _malformed()
    return keys


def _malformed() -> Invalid:
    return Invalid("cursor is not a cursor of this list", field="cursor")
