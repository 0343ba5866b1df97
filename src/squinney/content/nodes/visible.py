"""`VisibleNodes`: reads of nodes that check what the viewer may see and change. `Nodes` is built on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from squinney.clock import Clock
from squinney.content.errors import UnknownNode
from squinney.content.nodes import access as access_rules
from squinney.content.nodes import queries, rules
from squinney.content.nodes.access import Viewer
from squinney.content.nodes.documents import MOST_DEPTH, NODES, WITHOUT_COMMENTS, Access, Node
from squinney.errors import Forbidden, LimitReached
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page, filtered_page, page


class VisibleNodes:
    """Reads nodes, and checks access and the time of publication."""

    def __init__(self, db: Db, clock: Clock, top: Access) -> None:
        self._db = db
        self._clock = clock
        self.top = top

    # ---- one node ----

    def current(self, node: Node | str) -> Node:
        """Return the current node, found by parent and slug if these are known and still valid, else by id."""
        node_id = rules.id_of(node)
        if not isinstance(node, str) and "metadata" in node:
            found = self._db[NODES].find_one({**rules.filter_of(node), "txn_stub": None}, WITHOUT_COMMENTS)
            if found:
                return cast(Node, found)
        found = self._db[NODES].find_one(queries.NODE(node_id=node_id), WITHOUT_COMMENTS)
        if found is None:
            raise UnknownNode(f"there is no node {node_id}", node_id=node_id)
        return cast(Node, found)

    def child(self, parent_id: str | None, slug: str) -> Node:
        """Return the child of a node with this slug, or raise `UnknownNode`."""
        found = self._db[NODES].find_one(queries.CHILD(parent_id=parent_id, slug=slug), WITHOUT_COMMENTS)
        if found is None:
            raise no_child(slug)
        return cast(Node, found)

    def on_path(self, slugs: list[str]) -> list[Node]:
        """Return all nodes on a path, from the top down, or raise `UnknownNode`."""
        found: list[Node] = []
        for slug in slugs:
            found.append(self.child(found[-1]["_id"] if found else None, slug))
        return found

    def ancestors(self, node: Node) -> list[Node]:
        """Return the nodes above this node, the parent first."""
        found: list[Node] = []
        parent_id = node["metadata"]["parent_id"]
        while parent_id is not None and len(found) <= MOST_DEPTH:
            found.append(self.current(parent_id))
            parent_id = found[-1]["metadata"]["parent_id"]
        return found

    def path_of(self, node: Node) -> str:
        """Return the path at which `Nodes.by_path` finds the node."""
        slugs = [above["metadata"]["slug"] for above in reversed(self.ancestors(node))]
        return "/" + "/".join([*slugs, node["metadata"]["slug"]])

    # ---- permissions ----

    def access_of(self, node: Node | None, above: Iterable[Node] = ()) -> Access:
        """Return the node's own or inherited access; None is the top level. Ancestors in `above` are not read again."""
        if node is None:
            return self.top
        return access_rules.effective(self._db, [node], above, top=self.top, now=self._clock())[node["_id"]]

    def readable(self, node: Node, viewer: Viewer) -> Node:
        """Return the node if the viewer may see it, else raise `UnknownNode`."""
        return node if viewer.trusted else self.require_visible(node, self.access_of(node), viewer)

    def require_visible(self, node: Node, access: Access, viewer: Viewer) -> Node:
        """Return the node if its access allows the viewer to see it, else raise `UnknownNode`."""
        if not self._may_see(node, access, viewer):
            raise UnknownNode(f"there is no node {node['_id']}", node_id=node["_id"])
        return node

    def only_visible(self, nodes: list[Node], viewer: Viewer) -> list[Node]:
        """Return those of the nodes that the viewer may see."""
        if viewer.trusted:
            return nodes
        access = access_rules.effective(self._db, nodes, top=self.top, now=self._clock())
        return [node for node in nodes if self._may_see(node, access[node["_id"]], viewer)]

    def only_moderated(self, node_ids: Iterable[str], viewer: Viewer) -> set[str]:
        """Return the ids of those nodes whose comments the viewer may moderate."""
        ids = sorted(set(node_ids))
        nodes = cast(list[Node], list(queries.NODES_BY_ID.find(self._db, node_ids=ids, projection=WITHOUT_COMMENTS)))
        access = access_rules.effective(self._db, nodes, top=self.top, now=self._clock())
        return {
            node["_id"]
            for node in nodes
            if viewer.may("edit", access[node["_id"]], node)
            or (viewer.moderates and self._may_see(node, access[node["_id"]], viewer))
        }

    def _may_see(self, node: Node, access: Access, viewer: Viewer) -> bool:
        if not access_rules.is_published(node["metadata"], self._clock()):
            return viewer.may("edit", access, node)
        return viewer.may("read", access, node)

    def editable(self, node: Node | str, viewer: Viewer) -> Node:
        """Return the current node if the viewer may edit it, else raise `UnknownNode` or `Forbidden`."""
        current = self.current(node)
        if viewer.trusted:
            return current
        access = self.access_of(current)
        if viewer.may("edit", access, current):
            return current
        self.require_visible(current, access, viewer)
        raise Forbidden("you may not edit this node")

    def parent_for(self, parent: Node | str | None, viewer: Viewer) -> Node | None:
        """Return the current parent if the viewer may create nodes below it; None is the top level."""
        above = self.current(parent) if parent is not None else None
        access = self.access_of(above)
        if not viewer.may("edit", access, above):
            if above:
                self.require_visible(above, access, viewer)
            raise Forbidden("you may not create nodes here")
        if above and len(self.ancestors(above)) + 2 > MOST_DEPTH:
            raise too_deep()
        return above

    # ---- lists ----

    def page(self, query: Query, viewer: Viewer, cursor: str | None, limit: int, **arguments: Any) -> Page[Node]:
        """Return a page of the nodes that the viewer may see; reads on, a bounded number of times, to fill it."""

        def read(at: str | None) -> Page[Node]:
            found = page(self._db, query, cursor=at, limit=limit, projection=WITHOUT_COMMENTS, **arguments)
            return cast(Page[Node], found)

        return filtered_page(read, lambda nodes: self.only_visible(nodes, viewer), query.sort, cursor, limit)


def no_child(slug: str) -> UnknownNode:
    """Return the error for a parent that has no child with this slug."""
    return UnknownNode(f"there is no node with the slug {slug!r} here", slug=slug)


def too_deep() -> LimitReached:
    """Return the error for a tree with too many levels."""
    return LimitReached(f"nodes may be at most {MOST_DEPTH} levels deep", limit=MOST_DEPTH)
