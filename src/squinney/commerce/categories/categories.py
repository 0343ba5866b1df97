"""`Categories`: a category tree in which a breadcrumb or a subtree is one query, whatever the size of the tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast, get_args

from pymongo.client_session import ClientSession

from squinney import checks
from squinney.commerce.categories import queries
from squinney.commerce.categories.documents import CATEGORY_COLLECTIONS, CATEGORY_TREE, MAX_DEPTH, Ancestor, Category
from squinney.commerce.categories.imports import add_paths
from squinney.commerce.categories.tree import change_tree, new_category, remove_from_products
from squinney.commerce.errors import CategoryNotEmpty, DepthLimit, UnknownCategory
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.prepared import require_unique
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, page
from squinney.transactions import Key, Step

Children = Literal["refuse", "lift", "cascade"]
SLUG = r"[a-z0-9]+(-[a-z0-9]+)*"
REQUIRED_FIELDS = {"name", "slug", "parent"}


def breadcrumbs(category: Category) -> list[Ancestor]:
    """Return the path from the root to the category, both included."""
    own: Ancestor = {"_id": category["_id"], "slug": category["slug"], "name": category["name"]}
    return [*reversed(category["ancestors"]), own]


class Categories:
    """A tree of categories. Each change of the tree is one transaction, and changes run one after another."""

    def __init__(self, db: Db, *, max_depth: int = MAX_DEPTH) -> None:
        self._db = pinned(db)
        self._max_depth = max_depth

    # ---- reading ----

    @operation(reads_only=True)
    def get(self, slug: str) -> Category:
        """Return the category with its ancestors, parent first; `breadcrumbs` returns them root first.

        Raises: `UnknownCategory`.
        """
        return self._get(slug, None)

    @operation(reads_only=True)
    def by_id(self, category_id: str) -> Category:
        """Return the category with this id. The id does not change when the slug changes.

        Raises: `UnknownCategory`.
        """
        checks.identifier(category_id, "category")
        category = next(iter(queries.CATEGORIES_BY_ID.find(self._db, category_ids=[category_id])), None)
        if category is None:
            raise UnknownCategory(f"there is no category with the id {category_id}", category_id=category_id)
        return cast(Category, category)

    @operation(reads_only=True)
    def children(self, slug: str | None = None, *, cursor: str | None = None, limit: int = 100) -> Page[Category]:
        """Return a page of a category's children, or of the roots, in order of position.

        Raises: `UnknownCategory`; `Invalid` for an unknown cursor.
        """
        parent = None if slug is None else self._get(slug, None)["_id"]
        children = page(self._db, queries.CHILDREN, cursor=cursor, limit=limit, max_limit=1_000, parent=parent)
        return cast(Page[Category], children)

    @operation(reads_only=True)
    def descendants(self, slug: str, *, cursor: str | None = None, limit: int = 100) -> Page[Category]:
        """Return a page of the descendants of a category, oldest first.

        Raises: `UnknownCategory`; `Invalid` for an unknown cursor.
        """
        category_id = self._get(slug, None)["_id"]
        descendants = page(
            self._db, queries.DESCENDANTS, cursor=cursor, limit=limit, max_limit=1_000, category_id=category_id
        )
        return cast(Page[Category], descendants)

    @operation(reads_only=True)
    def tree(self) -> list[Document]:
        """Return the whole tree with one query: the roots, each with its `children`, in order of position.

        A damaged category, which lacks its name, slug or parent, is left out.
        """
        valid = (node for node in queries.TREE.find(self._db) if node.keys() >= REQUIRED_FIELDS)
        nodes = {node["_id"]: {**node, "children": []} for node in valid}
        for node in nodes.values():
            if node["parent"] in nodes:
                nodes[node["parent"]]["children"].append(node)
        return [node for node in nodes.values() if node["parent"] is None]

    # ---- changing ----

    @operation(30)
    def add(
        self,
        name: str,
        slug: str | None = None,
        parent: str | None = None,
        *,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Category:
        """Add a category as the last child of `parent` (a slug), or as the last root; once per `key`.

        Without a slug, the slug is made from the name; if it is in use, it gets a suffix.

        Atomic: one transaction, which includes the key's record.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownCategory`, `SlugTaken`, `DepthLimit`, `Busy`, `NotPrepared`, `Unavailable`; with a
        key also `KeyReused`.
        """
        checks.text(name, "name", min_length=1, max_length=200)
        if slug is not None:
            checks.text(slug, "slug", min_length=1, max_length=100, pattern=SLUG)
        require_unique(self._db, "commerce.categories", CATEGORY_COLLECTIONS)

        def change(session: ClientSession) -> Category:
            def is_taken(made_slug: str) -> bool:
                return self._find(made_slug, session) is not None

            above = None if parent is None else self._get(parent, session)
            position = self._count(above["_id"] if above else None, session)
            category = new_category(name, slug, above, position, is_taken=is_taken)
            self._require_depth(len(category["ancestors"]))
            self._db["commerce.categories"].insert_one(dict(category), session=session)
            return category

        arguments = {"name": name, "slug": slug, "parent": parent}
        return change_tree(self._db, change, "category add", key=key, arguments=arguments, also=also)

    @operation(30)
    def move(
        self,
        slug: str,
        new_parent: str | None,
        position: int | None = None,
        *,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Category:
        """Move a category and its descendants below another category (or to the root), to `position` or to the end.

        With a `key`, the move happens once: a repeat does not undo moves that other callers made in between.

        Atomic: one transaction, with a constant number of round trips whatever the size of the subtree.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownCategory`, `Cycle`, `DepthLimit`, `Busy`, `Unavailable`; with a key also `KeyReused`.
        """
        if position is not None:
            checks.integer(position, "position", minimum=0, maximum=10**9)

        def change(session: ClientSession) -> Category:
            node = self._get(slug, session)
            above = None if new_parent is None else self._get(new_parent, session)
            # guard: a category does not move below itself
            CATEGORY_TREE.refuse_cycle(node["_id"], above)
            ancestors = CATEGORY_TREE.under(above)
            deepest = self._deepest(node, session) - len(node["ancestors"]) + len(ancestors)
            self._require_depth(deepest)
            new_position = self._make_room(node, above["_id"] if above else None, position, session)
            moved = {"parent": above["_id"] if above else None, "ancestors": ancestors, "position": new_position}
            return self._rewrite(node, moved, session)

        arguments = {"slug": slug, "parent": new_parent, "position": position}
        return change_tree(self._db, change, "category move", key=key, arguments=arguments, also=also)

    @operation(30)
    def rename(self, slug: str, name: str, *, also: Sequence[Step] = ()) -> Category:
        """Change the name of a category, also in the breadcrumbs of its descendants; the slug does not change.

        Atomic: as `move`.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownCategory`, `Busy`, `Unavailable`.
        """
        checks.text(name, "name", min_length=1, max_length=200)
        return change_tree(self._db, lambda s: self._rewrite(self._get(slug, s), {"name": name}, s), also=also)

    @operation(30)
    def change_slug(self, slug: str, new_slug: str, *, also: Sequence[Step] = ()) -> Category:
        """Change the slug of a category, also in the breadcrumbs of its descendants.

        Atomic: as `move`.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownCategory`, `SlugTaken`, `Busy`, `Unavailable`.
        """
        checks.text(new_slug, "new_slug", min_length=1, max_length=100, pattern=SLUG)
        require_unique(self._db, "commerce.categories", CATEGORY_COLLECTIONS)
        return change_tree(self._db, lambda s: self._rewrite(self._get(slug, s), {"slug": new_slug}, s), also=also)

    @operation(30)
    def remove(self, slug: str, *, children: Children = "refuse", also: Sequence[Step] = ()) -> int:
        """Remove a category; return how many categories were removed.

        If the category has children: `refuse` raises, `lift` moves them to its parent, `cascade` removes them too.

        Atomic: one transaction for the tree; then one update removes the ids from products.
        After a crash: products may still have ids of removed categories. They are not shown, and `repair` removes them.
        Raises: `Invalid`, `UnknownCategory`, `CategoryNotEmpty`, `Busy`, `Unavailable`.
        """
        if children not in get_args(Children):
            raise Invalid(f"children must be one of {', '.join(get_args(Children))}", field="children")
        removed = change_tree(self._db, lambda session: self._remove(slug, children, session), also=also)
        remove_from_products(self._db, removed)
        return len(removed)

    @operation(300)
    def add_paths(self, paths: Iterable[Sequence[str]]) -> int:
        """Add the missing categories of each path of names (root first); return how many were added.

        Atomic: each batch of 1,000 paths in one transaction.
        After a crash: call it again; existing categories are found by their names.
        Raises: `Invalid`, `DepthLimit`, `Busy`, `Unavailable`.
        """
        require_unique(self._db, "commerce.categories", CATEGORY_COLLECTIONS)
        return add_paths(self._db, paths, self._max_depth)

    # ---- inside a transaction ----

    def _get(self, slug: str, session: ClientSession | None) -> Category:
        category = self._find(checks.text(slug, "slug", min_length=1, max_length=100), session)
        if category is None:
            raise UnknownCategory(f"there is no category {slug}", slug=slug)
        return cast(Category, category)

    def _find(self, slug: str, session: ClientSession | None) -> Document | None:
        return queries.CATEGORY.find_one(self._db, slug=slug, session=session)

    def _count(self, parent_id: str | None, session: ClientSession, *, without: str = "") -> int:
        """Return the number of children, read from the last position, because positions have no gaps."""
        where = {**queries.CHILDREN(parent=parent_id), "_id": {"$ne": without}}
        last = self._db["commerce.categories"].find_one(
            where, {"position": 1}, sort=[("position", -1)], session=session
        )
        return int(last["position"]) + 1 if last else 0

    def _deepest(self, node: Category, session: ClientSession) -> int:
        deepest = next(queries.DEPTH_BELOW.run(self._db, node_id=node["_id"], session=session), None)
        return int(deepest["depth"]) if deepest else len(node["ancestors"])

    def _require_depth(self, ancestors: int) -> None:
        # guard: the tree has a maximum depth
        if ancestors >= self._max_depth:
            raise DepthLimit(f"the tree has at most {self._max_depth} levels", limit=self._max_depth)

    def _make_room(self, node: Category, parent_id: str | None, position: int | None, session: ClientSession) -> int:
        """Renumber the old and the new siblings of a node that moves; return the node's new position."""
        # guard: the siblings of a moved category are renumbered without a gap
        self._shift(node["parent"], {"$gt": node["position"]}, -1, session)
        count = self._count(parent_id, session, without=node["_id"])
        new_position = count if position is None else min(position, count)
        self._shift(parent_id, {"$gte": new_position}, 1, session, without=node["_id"])
        return new_position

    def _shift(
        self, parent_id: str | None, position: Document, by: int, session: ClientSession, *, without: str = ""
    ) -> None:
        where = {"parent": parent_id, "position": position, "_id": {"$ne": without}}
        self._db["commerce.categories"].update_many(where, {"$inc": {"position": by}}, session=session)

    def _rewrite(self, node: Category, change: Mapping[str, Any], session: ClientSession) -> Category:
        """Change the node, then the copies of it in all its descendants with one update on the server."""
        changed = {**node, **change, "version": node["version"] + 1}
        fields = {**change, "version": changed["version"]}
        self._db["commerce.categories"].update_one({"_id": node["_id"]}, {"$set": fields}, session=session)
        rewritten = CATEGORY_TREE.rewritten(changed)
        # guard: breadcrumbs change when a category changes
        self._db["commerce.categories"].update_many(CATEGORY_TREE.below(node["_id"]), rewritten, session=session)
        return cast(Category, changed)

    def _remove(self, slug: str, children: Children, session: ClientSession) -> list[str]:
        node = self._get(slug, session)
        below = CATEGORY_TREE.below(node["_id"])
        removed = [node["_id"]]
        if children == "cascade":
            descendants = (
                self._db["commerce.categories"].find(below, {"_id": 1}, session=session).batch_size(10**6)
            )  # one round trip
            removed += [category["_id"] for category in descendants]
            self._db["commerce.categories"].delete_many(below, session=session)
        elif self._count(node["_id"], session):
            # guard: a category with children is not removed
            if children == "refuse":
                raise CategoryNotEmpty(f"{slug} has children", slug=slug)
            self._lift(node, session)
        self._db["commerce.categories"].delete_one({"_id": node["_id"]}, session=session)
        self._shift(node["parent"], {"$gt": node["position"]}, -1, session)
        return removed

    def _lift(self, node: Category, session: ClientSession) -> None:
        """Move the children of a node to the end of its parent's children, in the same order."""
        siblings = self._count(node["parent"], session)
        self._shift(node["_id"], {"$gte": 0}, siblings, session)
        lifted = CATEGORY_TREE.lifted(node)
        self._db["commerce.categories"].update_many(CATEGORY_TREE.below(node["_id"]), lifted, session=session)
