"""Finds and repairs problems of the category tree and of references to it. The parent ids are the source of truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pymongo import UpdateOne
from pymongo.client_session import ClientSession

from squinney.commerce import problem_queries as queries
from squinney.commerce.categories.documents import CATEGORY_TREE
from squinney.commerce.categories.queries import TREE
from squinney.commerce.categories.tree import change_tree, remove_from_products
from squinney.mongo.problems import Check, Problem, malformed
from squinney.mongo.schema import Db, Document

NEEDED: dict[str, Any] = {"slug": str, "parent": (str, type(None)), "position": int}


def find_problems(db: Db) -> Iterator[Problem]:
    """Yield the problems of the tree, read in one snapshot."""
    with db.client.start_session(snapshot=True) as session:
        stored = list(TREE.find(db, session=session))
    yield from (
        malformed("commerce.categories", node, TypeError(defect)) for node in stored if (defect := _defect(node))
    )
    nodes = [node for node in stored if not _defect(node)]
    right = CATEGORY_TREE.rebuilt(nodes)
    for node in nodes:
        if node["_id"] in right.orphans:
            yield _problem("orphan-category", node, "its parent does not exist")
        elif node["_id"] in right.cycles:
            yield _problem("category-cycle", node, "it is below itself")
        elif node.get("ancestors") != right.ancestors[node["_id"]]:
            yield _problem("wrong-ancestors", node, "its ancestors do not match the parent ids")
    for node, position in _wrong_positions(nodes):
        yield _problem("wrong-position", node, f"its position among its siblings should be {position}")


def _defect(node: Document) -> str:
    """Return which field of a node is missing or has a wrong type; empty if the node is valid."""
    wrong = (name for name, kind in NEEDED.items() if name not in node or not isinstance(node[name], kind))
    return next((f"{name} is {type(node.get(name)).__name__}" for name in wrong), "")


def _valid_nodes(db: Db, session: ClientSession) -> list[Document]:
    return [node for node in TREE.find(db, session=session) if not _defect(node)]


def _problem(code: str, node: Document, why: str) -> Problem:
    return Problem(
        code, f"category {node['slug']}: {why}", documents={"commerce.categories": node["_id"]}, repairable=True
    )


def _wrong_positions(nodes: Iterable[Document]) -> Iterator[tuple[Document, int]]:
    """Yield each node whose position is wrong, with the right position."""
    siblings: dict[str | None, list[Document]] = {}
    for node in nodes:
        siblings.setdefault(node["parent"], []).append(node)
    for family in siblings.values():
        family.sort(key=lambda node: (node["position"], node["_id"]))
        for position, node in enumerate(family):
            if node["position"] != position:
                yield node, position


def repair(db: Db) -> Counter[str]:
    """Rebuild the ancestors from the parent ids, and renumber the siblings; return counts.

    Atomic: one transaction.
    """
    return Counter(change_tree(db, lambda session: _repair_tree(db, session)))


CHECKS = [
    Check(
        "unknown-category-id",
        queries.UNKNOWN_CATEGORIES,
        "{products} products are in category {_id}, which does not exist",
        repair=lambda db, unknown: remove_from_products(db, [unknown["_id"]]),
        counted_as="products set",
        collection="commerce.categories",
    ),
]


def _repair_tree(db: Db, session: ClientSession) -> dict[str, int]:
    changes = list(CATEGORY_TREE.repairs(_valid_nodes(db, session)))
    if changes:
        db["commerce.categories"].bulk_write(changes, session=session)
    moved = [
        UpdateOne({"_id": node["_id"]}, {"$set": {"position": position}})
        for node, position in _wrong_positions(_valid_nodes(db, session))
    ]
    if moved:
        db["commerce.categories"].bulk_write(moved, session=session)
    return {"categories set": len(changes), "positions set": len(moved)}
