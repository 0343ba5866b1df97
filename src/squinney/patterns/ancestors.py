"""Trees with ancestor arrays: each node lists its ancestors, nearest first, beside the pointer to its parent.

The pointer is the record; the array is a copy that makes breadcrumbs and whole subtrees one query each. A move or a
rename writes the node, then rewrites all its descendants on the server in one `update_many`, whatever their number:

    collection.update_one({"_id": node["_id"]}, {"$set": {"parent": ..., "ancestors": TREE.under(parent)}})
    collection.update_many(TREE.below(node["_id"]), TREE.rewritten(node))

Both belong in one transaction that first touches a document of the whole tree: two snapshot transactions could
otherwise put A under B and B under A.
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
    """What the parent pointers say: each node's ancestors, and the nodes whose pointer cannot be right.

    Orphans (no such parent) and the one node of each cycle that has the least id, as text, count as roots.
    """

    ancestors: dict[Any, list[Document]] = field(default_factory=dict)
    orphans: list[Any] = field(default_factory=list)
    cycles: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Tree:
    """Which fields hold a tree, and which fields of a node are copied into its descendants' arrays."""

    copied: tuple[str, ...] = ()
    parent: str = "parent"
    ancestors: str = "ancestors"

    def index(self) -> Index:
        """The index that finds descendants."""
        return Index([(f"{self.ancestors}._id", 1)], why="the nodes below one")

    def link(self, node: Mapping[str, Any]) -> Document:
        """The node as its descendants' arrays show it."""
        return {"_id": node["_id"], **{name: node.get(name) for name in self.copied}}

    def under(self, parent: Mapping[str, Any] | None) -> list[Document]:
        """The ancestors of a node under this parent; of a root when it is None."""
        return [] if parent is None else [self.link(parent), *parent[self.ancestors]]

    def below(self, node_id: Any) -> Document:
        """The filter for all descendants of a node."""
        return {f"{self.ancestors}._id": node_id}

    def refuse_cycle(self, node_id: Any, parent: Mapping[str, Any] | None) -> None:
        """Raises: `Cycle` where the parent is the node itself or one of its descendants."""
        if parent is None:
            return
        if node_id in [parent["_id"], *(ancestor["_id"] for ancestor in parent[self.ancestors])]:
            raise Cycle(node=node_id, parent=parent["_id"])

    def deepest(self, node_id: Any) -> list[Document]:
        """The pipeline that gives `{"depth": n}`, the most ancestors a descendant has; nothing for a leaf."""
        size = {"$size": f"${self.ancestors}"}
        return [{"$match": self.below(node_id)}, {"$group": {"_id": None, "depth": {"$max": size}}}]

    def rewritten(self, node: Mapping[str, Any]) -> list[Document]:
        """The pipeline update that makes descendants agree with `node` as it is now (moved, renamed or both).

        What a descendant has between itself and the node stays; the node's link and all above it are replaced.
        """
        position = {"$indexOfArray": [f"${self.ancestors}._id", {"$literal": node["_id"]}]}
        between = {"$slice": [f"${self.ancestors}", position]}
        above = {"$literal": [self.link(node), *node[self.ancestors]]}
        return [{"$set": {self.ancestors: {"$concatArrays": [between, above]}}}]

    def lifted(self, node: Mapping[str, Any]) -> list[Document]:
        """The pipeline update that takes `node` out from above its descendants; its children get its parent."""
        node_id = {"$literal": node["_id"]}
        others = {"$filter": {"input": f"${self.ancestors}", "cond": {"$ne": ["$$this._id", node_id]}}}
        adopted = {"$literal": node[self.parent]}
        parent = {"$cond": [{"$eq": [f"${self.parent}", node_id]}, adopted, f"${self.parent}"]}
        return [{"$set": {self.ancestors: others, self.parent: parent}}]

    def rebuilt(self, nodes: Iterable[Mapping[str, Any]]) -> Rebuilt:
        """The ancestors of every node of a whole tree, from the parent pointers alone; cycles and orphans end it."""
        known = {node["_id"]: node for node in nodes}
        pointers = {node_id: node.get(self.parent) for node_id, node in known.items()}
        found = Rebuilt(orphans=[i for i, parent in pointers.items() if parent is not None and parent not in known])
        for start in known:
            self._climb(known, start, found)
        return found

    def repairs(self, nodes: Iterable[Mapping[str, Any]]) -> Iterator[UpdateOne]:
        """The writes that make arrays agree with pointers, and roots of orphans and broken cycles.

        Each applies only while the node still has the parent that was read.
        """
        nodes = list(nodes)
        found = self.rebuilt(nodes)
        roots = {*found.orphans, *found.cycles}
        for node in nodes:
            node_id = node["_id"]
            read = {self.parent: node.get(self.parent), self.ancestors: node.get(self.ancestors)}
            parent = None if node_id in roots else read[self.parent]
            right = {self.parent: parent, self.ancestors: found.ancestors[node_id]}
            if right != read:
                yield UpdateOne({"_id": node_id, self.parent: read[self.parent]}, {"$set": right})

    def _climb(self, known: Mapping[Any, Mapping[str, Any]], start: Any, found: Rebuilt) -> None:
        """Go up from `start` to what is known already or to a root, then settle the way back down."""
        way: list[Any] = []
        on_way: set[Any] = set()
        node_id: Any = start
        while node_id in known and node_id not in found.ancestors and node_id not in on_way:
            way.append(node_id)
            on_way.add(node_id)
            node_id = known[node_id].get(self.parent)
        if node_id in on_way:
            way = self._cut(way, way.index(node_id), found)
        for node_id in reversed(way):
            parent_id = None if node_id in found.cycles else known[node_id].get(self.parent)
            above = found.ancestors.get(parent_id)
            found.ancestors[node_id] = [] if above is None else [self.link(known[parent_id]), *above]

    def _cut(self, way: list[Any], begin: int, found: Rebuilt) -> list[Any]:
        """Make one node of the cycle that ends `way` a root, and order the way so that it is settled first."""
        cycle = way[begin:]
        root = min(cycle, key=str)
        found.cycles.append(root)
        turn = cycle.index(root) + 1
        return way[:begin] + cycle[turn:] + cycle[:turn]
