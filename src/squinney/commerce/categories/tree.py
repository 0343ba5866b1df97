"""What changes of the category tree share: one transaction at a time, and slugs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from squinney.commerce.categories.queries import CATEGORIES_BY_ID
from squinney.commerce.errors import SlugTaken
from squinney.mongo.schema import Db
from squinney.transactions import Key, once

T = TypeVar("T")

TREE_ID = "categories"


def slug_for(name: str) -> str:
    """A slug made of the name's letters and digits; empty where it has none that a URL likes."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:100].strip("-")


def change_tree(
    db: Db,
    change: Callable[[ClientSession], T],
    kind: str = "category change",
    *,
    key: str | Key | None = None,
    arguments: Mapping[str, Any] = {},
) -> T:
    """Run `change` in a transaction that first increments the tree's own document; once for a caller with a key.

    Two snapshot transactions could otherwise each see a tree without the other's move, and put A under B and B under
    A. With it, one of two that overlap is turned away by the server and tried again on what the other left.

    Raises: what `change` raises; `Busy`; `Unavailable` where the commit's outcome is unknown.
    """

    def work(session: ClientSession) -> T:
        db["category_tree"].update_one({"_id": TREE_ID}, {"$inc": {"version": 1}}, upsert=True, session=session)
        return change(session)

    try:
        return once(db, kind, work, key=key, arguments=arguments)
    except DuplicateKeyError as error:  # the slug's index is the only unique one
        raise SlugTaken("another category has this slug") from error


def unknown_categories(db: Db, category_ids: Iterable[str], session: ClientSession | None = None) -> set[str]:
    """Which of these are the id of no category. One query, or none where there is nothing to ask."""
    asked = set(category_ids)
    if not asked:
        return asked
    found = CATEGORIES_BY_ID.find(db, category_ids=sorted(asked), projection={"_id": 1}, session=session)
    return asked - {category["_id"] for category in found}


def take_from_products(db: Db, category_ids: list[str]) -> int:
    """Take categories that are gone from every product; their versions tell whoever is editing one.

    Atomic: each product by itself.
    """
    change = {"$pull": {"category_ids": {"$in": category_ids}}, "$inc": {"version": 1}}
    return db["products"].update_many({"category_ids": {"$in": category_ids}}, change).modified_count
