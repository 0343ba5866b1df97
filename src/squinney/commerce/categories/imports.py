"""Imports category trees from paths of names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from pymongo.client_session import ClientSession

from squinney import checks
from squinney.commerce.categories import queries
from squinney.commerce.categories.tree import change_tree, new_category
from squinney.commerce.errors import DepthLimit
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document

BATCH = 1_000


def add_paths(db: Db, paths: Iterable[Sequence[str]], max_depth: int) -> int:
    """Add the missing categories of each path, in transactions of 1,000 paths; return how many were added."""
    checked = (_checked(path, max_depth) for path in paths)
    added = 0
    while batch := list(islice(checked, BATCH)):
        added += change_tree(db, lambda session, batch=batch: _add_batch(db, batch, session))  # type: ignore[misc]
    return added


def _checked(path: Any, max_depth: int) -> tuple[str, ...]:
    if isinstance(path, str) or not isinstance(path, Sequence) or not path:
        raise Invalid("path must be a list of names", field="path")
    if len(path) > max_depth:
        raise DepthLimit(f"the tree has at most {max_depth} levels", limit=max_depth)
    return tuple(checks.text(name, "name", min_length=1, max_length=200) for name in path)


def _add_batch(db: Db, batch: Sequence[tuple[str, ...]], session: ClientSession) -> int:
    tree = _TreeInMemory(queries.TREE.find(db, session=session))
    added = [node for path in batch for node in tree.add_path(path)]
    if added:
        db["commerce.categories"].insert_many(added, session=session)
    return len(added)


class _TreeInMemory:
    """The stored tree and the nodes that a batch adds to it."""

    def __init__(self, nodes: Iterable[Document]) -> None:
        self._by_name: dict[tuple[Any, str], Document] = {}
        self._slugs: set[str] = set()
        self._counts: dict[Any, int] = {}
        for node in nodes:
            self._remember(node)

    def _remember(self, node: Document) -> None:
        self._by_name[(node["parent"], node["name"])] = node
        self._slugs.add(node["slug"])
        self._counts[node["parent"]] = self._counts.get(node["parent"], 0) + 1

    def add_path(self, path: Sequence[str]) -> Iterator[Document]:
        """Add the missing nodes of a path; yield each of them."""
        parent: Document | None = None
        for name in path:
            parent_id = parent["_id"] if parent else None
            node = self._by_name.get((parent_id, name))
            if node is None:
                node = self._new(name, parent)
                yield node
            parent = node

    def _new(self, name: str, parent: Document | None) -> Document:
        position = self._counts.get(parent["_id"] if parent else None, 0)
        node = dict(new_category(name, None, parent, position, is_taken=self._slugs.__contains__))
        self._remember(node)
        return node
