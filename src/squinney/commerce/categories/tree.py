"""Functions that all changes of the category tree share: the transaction, slugs, and references from products."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from squinney.commerce.categories.documents import CATEGORY_TREE, Ancestor, Category
from squinney.commerce.categories.queries import CATEGORIES_BY_ID
from squinney.errors import SlugTaken
from squinney.mongo.schema import Db
from squinney.patterns.ids import new_id
from squinney.transactions import Key, Step, once

T = TypeVar("T")

TREE_ID = "categories"
OWN = {"commerce.categories", "commerce.category_tree"}  # where a change of the tree changes documents


def slug_for(name: str) -> str:
    """Return a slug of the name's ASCII letters and digits; empty if the name has none."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:100].strip("-")


def new_category(
    name: str, slug: str | None, parent: Mapping[str, Any] | None, position: int, *, is_taken: Callable[[str], object]
) -> Category:
    """Return a new category below `parent`. Without a slug, it is made from the name, with a suffix if it is taken."""
    category_id = new_id()
    if slug is None:
        slug = slug_for(name) or category_id
        slug = f"{slug[:90]}-{category_id[-8:]}" if is_taken(slug) else slug
    return {
        "_id": category_id,
        "slug": slug,
        "name": name,
        "parent": parent["_id"] if parent else None,
        "ancestors": cast(list[Ancestor], CATEGORY_TREE.under(parent)),
        "position": position,
        "version": 1,
    }


def change_tree(
    db: Db,
    change: Callable[[ClientSession], T],
    kind: str = "category change",
    *,
    key: str | Key | None = None,
    arguments: Mapping[str, Any] = {},
    also: Sequence[Step] = (),
) -> T:
    """Run `change` in a transaction that first increments the tree's version document; with a key, run it once.

    Without this document, two concurrent snapshot transactions could put A under B and B under A, because neither sees
    the other's move. With it, the server aborts one of two concurrent changes, which is then retried on the new tree.

    Raises: what `change` raises; `Busy`; `Unavailable` if the outcome of the commit is unknown.
    """

    def work(session: ClientSession) -> T:
        version = {"$inc": {"version": 1}}
        # guard: two concurrent changes of the tree conflict
        db["commerce.category_tree"].update_one({"_id": TREE_ID}, version, upsert=True, session=session)
        return change(session)

    try:
        return once(db, kind, work, key=key, arguments=arguments, also=also, own=OWN)
    except DuplicateKeyError as error:  # the slug's index is the only unique one
        raise SlugTaken("another category has this slug") from error


def unknown_categories(db: Db, category_ids: Iterable[str], session: ClientSession | None = None) -> set[str]:
    """Return the ids that belong to no category. One query; no query if there are no ids."""
    wanted = set(category_ids)
    if not wanted:
        return wanted
    categories = CATEGORIES_BY_ID.find(db, category_ids=sorted(wanted), projection={"_id": 1}, session=session)
    return wanted - {category["_id"] for category in categories}


def remove_from_products(db: Db, category_ids: list[str]) -> int:
    """Remove category ids from all products; return how many products changed.

    The version of each product increases, so that a user who is editing it gets a conflict.

    Atomic: each product separately.
    """
    # guard: an editor of a product is notified when its category is removed
    change = {"$pull": {"category_ids": {"$in": category_ids}}, "$inc": {"version": 1}}
    return db["commerce.products"].update_many({"category_ids": {"$in": category_ids}}, change).modified_count
