"""`VisibleNodes`: the tree as one viewer may see and change it; what `Nodes` and `Photos` stand on."""

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
from squinney.patterns.paging import Page, page, page_of_those


class VisibleNodes:
    """Reads of nodes, each checked against access and time."""

    def __init__(self, db: Db, clock: Clock, top: Access) -> None:
        self._db = db
        self._clock = clock
        self.top = top

    # ---- one node ----

    def current(self, node: Node | str) -> Node:
        """As it is now; by its place where that is known, by its id where it was moved since.

        Raises: `UnknownNode`.
        """
        node_id = rules.id_of(node)
        if not isinstance(node, str) and "metadata" in node:
            found = self._db[NODES].find_one({**rules.place(node), "txn_stub": None}, WITHOUT_COMMENTS)
            if found:
                return cast(Node, found)
        found = self._db[NODES].find_one(queries.NODE(node_id=node_id), WITHOUT_COMMENTS)
        if found is None:
            raise UnknownNode(f"there is no node {node_id}", node_id=node_id)
        return cast(Node, found)

    def child(self, parent_id: str | None, slug: str) -> Node:
        """Raises: `UnknownNode`."""
        found = self._db[NODES].find_one(queries.CHILD(parent_id=parent_id, slug=slug), WITHOUT_COMMENTS)
        if found is None:
            raise UnknownNode(f"there is no {slug!r} here", slug=slug)
        return cast(Node, found)

    def along(self, slugs: list[str]) -> list[Node]:
        """The nodes of a path, from the top down.

        Raises: `UnknownNode`.
        """
        found: list[Node] = []
        for slug in slugs:
            found.append(self.child(found[-1]["_id"] if found else None, slug))
        return found

    def ancestors(self, node: Node) -> list[Node]:
        """The nodes above it, the nearest first."""
        found: list[Node] = []
        parent_id = node["metadata"]["parent_id"]
        while parent_id is not None and len(found) <= MOST_DEPTH:
            found.append(self.current(parent_id))
            parent_id = found[-1]["metadata"]["parent_id"]
        return found

    def path_of(self, node: Node) -> str:
        """Where `by_path` finds it."""
        slugs = [above["metadata"]["slug"] for above in reversed(self.ancestors(node))]
        return "/" + "/".join([*slugs, node["metadata"]["slug"]])

    # ---- who may ----

    def access_of(self, node: Node | None, above: Iterable[Node] = ()) -> Access:
        """Its own or inherited; None is the top. Those nodes `above` it that are known are not read again."""
        if node is None:
            return self.top
        return access_rules.effective(self._db, [node], above, top=self.top, now=self._clock())[node["_id"]]

    def readable(self, node: Node, viewer: Viewer) -> Node:
        """The node.

        Raises: `UnknownNode` where it is not for this viewer.
        """
        return node if viewer.trusted else self.shown(node, self.access_of(node), viewer)

    def shown(self, node: Node, access: Access, viewer: Viewer) -> Node:
        """The node, whose access is known.

        Raises: `UnknownNode` where it is not for this viewer.
        """
        if not self._may_see(node, access, viewer):
            raise UnknownNode(f"there is no node {node['_id']}", node_id=node["_id"])
        return node

    def those_shown(self, nodes: list[Node], viewer: Viewer) -> list[Node]:
        """Those of the nodes that are for this viewer."""
        if viewer.trusted:
            return nodes
        access = access_rules.effective(self._db, nodes, top=self.top, now=self._clock())
        return [node for node in nodes if self._may_see(node, access[node["_id"]], viewer)]

    def those_moderated(self, node_ids: Iterable[str], viewer: Viewer) -> set[str]:
        """Those of the nodes whose comments the viewer may judge: they may edit them, or read them as a moderator."""
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
        """The node as it is now, for somebody who may edit it.

        Raises: `UnknownNode`, `Forbidden`.
        """
        current = self.current(node)
        if viewer.trusted:
            return current
        access = self.access_of(current)
        if viewer.may("edit", access, current):
            return current
        self.shown(current, access, viewer)
        raise Forbidden("you may not edit this")

    def parent_for(self, parent: Node | str | None, viewer: Viewer) -> Node | None:
        """The node under which the viewer may create, as it is now.

        Raises: `UnknownNode`, `Forbidden`, `LimitReached` where the tree would become too deep.
        """
        above = self.current(parent) if parent is not None else None
        access = self.access_of(above)
        if not viewer.may("edit", access, above):
            if above:
                self.shown(above, access, viewer)
            raise Forbidden("you may not add to this")
        if above and len(self.ancestors(above)) + 2 > MOST_DEPTH:
            raise LimitReached(f"nodes are at most {MOST_DEPTH} deep", limit=MOST_DEPTH)
        return above

    # ---- lists ----

    def page(self, query: Query, viewer: Viewer, cursor: str | None, limit: int, **arguments: Any) -> Page[Node]:
        """A page of what the viewer may see: reads on, a bounded number of times, until it is full."""

        def read(at: str | None) -> Page[Node]:
            found = page(self._db, query, cursor=at, limit=limit, projection=WITHOUT_COMMENTS, **arguments)
            return cast(Page[Node], found)

        return page_of_those(read, lambda nodes: self.those_shown(nodes, viewer), query.sort, cursor, limit)
