"""What can be wrong with the category tree and the catalog, found and mended. The parent pointers are the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pymongo import UpdateOne
from pymongo.client_session import ClientSession

from squinney.commerce import problem_queries as queries
from squinney.commerce.categories.documents import CATEGORY_TREE
from squinney.commerce.categories.queries import TREE
from squinney.commerce.categories.tree import change_tree, take_from_products
from squinney.mongo.problems import Check, Problem, malformed
from squinney.mongo.schema import Db, Document


def find_problems(db: Db) -> Iterator[Problem]:
    """What is wrong with the tree, read as of one moment; the `CHECKS` are not of the tree alone."""
    with db.client.start_session(snapshot=True) as session:
        nodes = list(TREE.find(db, session=session))
    yield from (malformed("categories", node, error) for node, error in _unreadable(nodes))
    nodes = [node for node in nodes if not _unreadable([node])]
    right = CATEGORY_TREE.rebuilt(nodes)
    for node in nodes:
        if node["_id"] in right.orphans:
            yield _problem("orphan-category", node, "its parent does not exist")
        elif node["_id"] in right.cycles:
            yield _problem("category-cycle", node, "it is below itself")
        elif node.get("ancestors") != right.ancestors[node["_id"]]:
            yield _problem("wrong-ancestors", node, "its breadcrumbs are not what the parent pointers say")
    for node, position in _renumbered(nodes):
        yield _problem("wrong-position", node, f"it should be number {position} among its siblings")


def _unreadable(nodes: Iterable[Document]) -> list[tuple[Document, Exception]]:
    """The nodes that lack what a place in the tree needs."""
    needed: dict[str, Any] = {"slug": str, "parent": (str, type(None)), "position": int}
    return [
        (node, TypeError(f"{name} is {type(node.get(name)).__name__}"))
        for node in nodes
        for name, kind in needed.items()
        if name not in node or not isinstance(node[name], kind)
    ]


def _readable(db: Db, session: ClientSession) -> list[Document]:
    return [node for node in TREE.find(db, session=session) if not _unreadable([node])]


def _problem(code: str, node: Document, why: str) -> Problem:
    return Problem(code, f"category {node['slug']}: {why}", documents={"categories": node["_id"]}, repairable=True)


def _renumbered(nodes: Iterable[Document]) -> Iterator[tuple[Document, int]]:
    """The nodes whose position is not their place among their siblings, with the right one."""
    siblings: dict[str | None, list[Document]] = {}
    for node in nodes:
        siblings.setdefault(node["parent"], []).append(node)
    for family in siblings.values():
        family.sort(key=lambda node: (node["position"], node["_id"]))
        for position, node in enumerate(family):
            if node["position"] != position:
                yield node, position


def repair(db: Db) -> Counter[str]:
    """Rebuild ancestors from the parent pointers, and number siblings anew.

    Atomic: one transaction.
    """
    return Counter(change_tree(db, lambda session: _repair_tree(db, session)))


def _reopen_stock(db: Db, stock: Document) -> int:
    where = {"_id": stock["_id"], "removed_at": stock["removed_at"], "txn_lock": None}
    return db["stock"].update_one(where, {"$unset": {"removed_at": ""}}).modified_count


CHECKS = [
    Check(
        "unknown-category-id",
        queries.UNKNOWN_CATEGORIES,
        "{products} products are in category {_id}, which does not exist",
        repair=lambda db, unknown: take_from_products(db, [unknown["_id"]]),
        counted_as="products set",
        collection="categories",
    ),
    Check(
        "removed-stock",
        queries.REMOVED_BUT_SOLD,
        "product {_id} exists, but its stock says that it was removed",
        repair=_reopen_stock,
        counted_as="stocks reopened",
    ),
]


def _repair_tree(db: Db, session: ClientSession) -> dict[str, int]:
    changes = list(CATEGORY_TREE.repairs(_readable(db, session)))
    if changes:
        db["categories"].bulk_write(changes, session=session)
    moved = [
        UpdateOne({"_id": node["_id"]}, {"$set": {"position": position}})
        for node, position in _renumbered(_readable(db, session))
    ]
    if moved:
        db["categories"].bulk_write(moved, session=session)
    return {"categories set": len(changes), "positions set": len(moved)}
