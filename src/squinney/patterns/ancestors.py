"""Trees with ancestor arrays: each node has a pointer to its parent and a list of its ancestors, nearest first.

The pointer is authoritative. The array is a copy of it that makes breadcrumbs and whole subtrees one query each. A move
or a rename writes the node, then rewrites all its descendants on the server by one `update_many`:

    collection.update_one({"_id": node["_id"]}, {"$set": {"parent": ..., "ancestors": TREE.under(parent)}})
    collection.update_many(TREE.below(node["_id"]), TREE.rewritten(node))

Both belong in one transaction that first writes to one common document of the tree: otherwise two concurrent snapshot
transactions could move A under B and B under A.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pymongo import UpdateOne

from squinney.errors import Conflict
from squinney.mongo.schema import Document, Index


class Cycle(Conflict):
    """A node cannot be moved under itself or under its own descendant."""


@dataclass
class Rebuilt:
    """The tree that the parent pointers describe: each node's ancestors, and the nodes whose pointer is wrong.

    Orphans (their parent does not exist) are treated as roots, and so is the node of each cycle with the smallest id,
    compared as text.
    """

    ancestors: dict[Any, list[Document]] = field(default_factory=dict)
    orphans: list[Any] = field(default_factory=list)
    cycles: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Tree:
    """A tree in the fields `parent` and `ancestors`. The arrays have the `_id` and the `copied` fields of each node."""

    copied: tuple[str, ...] = ()

    def index(self) -> Index:
        """Return the index that finds descendants."""
        return Index([("ancestors._id", 1)], why="the descendants of a node")

    def link(self, node: Mapping[str, Any]) -> Document:
        """Return the entry of the node in its descendants' arrays."""
        return {"_id": node["_id"], **{name: node.get(name) for name in self.copied}}

    def under(self, parent: Mapping[str, Any] | None) -> list[Document]:
        """Return the ancestors of a node under this parent; None is the parent of a root."""
        return [] if parent is None else [self.link(parent), *parent["ancestors"]]

    def below(self, node_id: Any) -> Document:
        """Return the filter for all descendants of a node."""
        return {"ancestors._id": node_id}

    def refuse_cycle(self, node_id: Any, parent: Mapping[str, Any] | None) -> None:
        """Refuse a parent that is the node itself or one of its descendants.

        Raises: `Cycle`.
        """
        if parent is None:
            return
        if node_id in [parent["_id"], *(ancestor["_id"] for ancestor in parent["ancestors"])]:
            raise Cycle(node=node_id, parent=parent["_id"])

    def deepest(self, node_id: Any) -> list[Document]:
        """Return the pipeline that yields `{"depth": n}`, the most ancestors of any descendant; nothing for a leaf."""
        size = {"$size": "$ancestors"}
        return [{"$match": self.below(node_id)}, {"$group": {"_id": None, "depth": {"$max": size}}}]

    def rewritten(self, node: Mapping[str, Any]) -> list[Document]:
        """Return the pipeline update that makes descendants agree with a node that was moved, renamed or both.

        The entries between a descendant and the node stay. Those of the node and of its ancestors are replaced.
        """
        position = {"$indexOfArray": ["$ancestors._id", {"$literal": node["_id"]}]}
        between = {"$slice": ["$ancestors", position]}
        above = {"$literal": [self.link(node), *node["ancestors"]]}
        return [{"$set": {"ancestors": {"$concatArrays": [between, above]}}}]

    def lifted(self, node: Mapping[str, Any]) -> list[Document]:
        """Return the pipeline update that removes a node above its descendants; its children get its parent."""
        node_id = {"$literal": node["_id"]}
        others = {"$filter": {"input": "$ancestors", "cond": {"$ne": ["$$this._id", node_id]}}}
        adopted = {"$literal": node["parent"]}
        parent = {"$cond": [{"$eq": ["$parent", node_id]}, adopted, "$parent"]}
        return [{"$set": {"ancestors": others, "parent": parent}}]

    def rebuilt(self, nodes: Iterable[Mapping[str, Any]]) -> Rebuilt:
        """Compute the ancestors of every node of a tree from the parent pointers alone, and find wrong pointers."""
        known = {node["_id"]: node for node in nodes}
        pointers = {node_id: node.get("parent") for node_id, node in known.items()}
        rebuilt = Rebuilt(orphans=[i for i, parent in pointers.items() if parent is not None and parent not in known])
        for start in known:
            self._climb(known, start, rebuilt)
        return rebuilt

    def repairs(self, nodes: Iterable[Mapping[str, Any]]) -> Iterator[UpdateOne]:
        """Yield the writes that make arrays agree with pointers, and turn orphans and one node per cycle into roots.

        Each write applies only if the node still has the parent that was read.
        """
        nodes = list(nodes)
        rebuilt = self.rebuilt(nodes)
        roots = {*rebuilt.orphans, *rebuilt.cycles}
        for node in nodes:
            node_id = node["_id"]
            read = {"parent": node.get("parent"), "ancestors": node.get("ancestors")}
            parent = None if node_id in roots else read["parent"]
            right = {"parent": parent, "ancestors": rebuilt.ancestors[node_id]}
            if right != read:
                yield UpdateOne({"_id": node_id, "parent": read["parent"]}, {"$set": right})

    def _climb(self, known: Mapping[Any, Mapping[str, Any]], start: Any, rebuilt: Rebuilt) -> None:
        """Go up from `start` to a finished node or a root, then add the ancestors of each node on the path."""
        path: list[Any] = []
        on_path: set[Any] = set()
        node_id: Any = start
        while node_id in known and node_id not in rebuilt.ancestors and node_id not in on_path:
            path.append(node_id)
            on_path.add(node_id)
            node_id = known[node_id].get("parent")
        if node_id in on_path:
            path = self._cut(path, path.index(node_id), rebuilt)
        for node_id in reversed(path):
            parent_id = None if node_id in rebuilt.cycles else known[node_id].get("parent")
            above = rebuilt.ancestors.get(parent_id)
            rebuilt.ancestors[node_id] = [] if above is None else [self.link(known[parent_id]), *above]

    def _cut(self, path: list[Any], begin: int, rebuilt: Rebuilt) -> list[Any]:
        """Make one node of the cycle at the end of `path` a root; return the path with that node last."""
        cycle = path[begin:]
        root = min(cycle, key=str)
        rebuilt.cycles.append(root)
        turn = cycle.index(root) + 1
        return path[:begin] + cycle[turn:] + cycle[:turn]
