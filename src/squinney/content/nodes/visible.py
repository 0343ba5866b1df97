"""`VisibleNodes`: the reading half of `Nodes`. It checks what the viewer may see and change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from squinney import checks
from squinney.clock import Clock
from squinney.content.errors import UnknownNode
from squinney.content.nodes import access as access_rules
from squinney.content.nodes import queries, rules
from squinney.content.nodes.access import TRUSTED, Viewer
from squinney.content.nodes.documents import MAX_DEPTH, NODES, WITHOUT_COMMENTS, Access, Node, Revision
from squinney.errors import Forbidden, Invalid, LimitReached
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page, filtered_page, page


class VisibleNodes:
    """Reads nodes, and checks access and the time of publication.

    What `Nodes` calls during a change has the time limit of the change: a shorter limit would cut the change short.
    """

    def __init__(self, db: Db, clock: Clock, top_access: Access) -> None:
        self._db = pinned(db)
        self._clock = clock
        self._top_access = access_rules.checked(top_access)

    # ---- one node ----

    @operation(reads_only=True)
    def get(self, parent: Node | str | None, slug: str, *, viewer: Viewer = TRUSTED) -> Node:
        """Return the child of `parent` with this slug.

        Raises: `UnknownNode`, `Invalid`.
        """
        child = self._child(_id_or_none(parent), rules.checked_slug(slug))
        try:
            return self._readable(child, viewer)
        except UnknownNode:  # the same message as for a missing node
            raise _no_child(slug) from None

    @operation(reads_only=True)
    def by_id(self, node_id: str, *, viewer: Viewer = TRUSTED) -> Node:
        """Return the node with this id.

        Raises: `UnknownNode`, `Invalid`.
        """
        return self._readable(self._current(node_id), viewer)

    @operation(reads_only=True)
    def by_path(self, path: str, *, viewer: Viewer = TRUSTED) -> Node:
        """Return the node at a path such as "/blog/2026-11-hello", with one read per path segment.

        Raises: `UnknownNode`, `Invalid`.
        """
        nodes: list[Node] = []
        try:
            for slug in _slugs_of(path):
                nodes.append(self._child(nodes[-1]["_id"] if nodes else None, slug))
            *above, node = nodes
            return self._require_visible(node, self._access_of(node, above), viewer)
        except UnknownNode:  # the same message for a missing and for a hidden node, or one below it
            raise _nothing_at(path) from None

    @operation(reads_only=True)
    def moved_to(self, path: str, *, viewer: Viewer = TRUSTED) -> str:
        """Return the current path of the node that had this `path` before it, or a folder above it, was moved.

        Every version stores the node's parent and slug at that time, so the history is enough. It is queried only for
        the segments of the path that no node has now.

        Raises: `UnknownNode`, also if the viewer may not see the node; `Invalid`.
        """
        try:
            return self._path(self._readable(self._once_at(path), viewer))
        except UnknownNode:
            raise _nothing_at(path) from None

    def _once_at(self, path: str) -> Node:
        """Return the node that is at the path now or was there before."""
        parent_id: str | None = None
        for slug in _slugs_of(path):
            try:
                node = self._child(parent_id, slug)
            except UnknownNode:
                node = self._former_child(parent_id, slug)
            parent_id = node["_id"]
        return node

    @operation(reads_only=True)
    def path_of(self, node: Node | str) -> str:
        """Return the path at which `by_path` finds the node.

        Raises: `UnknownNode`.
        """
        return self._path(self._current(node))

    @operation(30, reads_only=True)
    def ancestors(self, node: Node) -> list[Node]:
        """Return the nodes above this node, the parent first, without a check of access."""
        nodes: list[Node] = []
        parent_id = node["metadata"]["parent_id"]
        while parent_id is not None and len(nodes) <= MAX_DEPTH:
            nodes.append(self._current(parent_id))
            parent_id = nodes[-1]["metadata"]["parent_id"]
        return nodes

    def _path(self, node: Node) -> str:
        return "".join(f"/{part['metadata']['slug']}" for part in reversed([node, *self.ancestors(node)]))

    def _current(self, node: Node | str) -> Node:
        """Return the current node, found by parent and slug if these are known and still valid, else by id."""
        node_id = rules.id_of(node)
        if not isinstance(node, str) and "metadata" in node:
            stored = self._db[NODES].find_one(queries.filter_of(node), WITHOUT_COMMENTS)
            if stored:
                return cast(Node, stored)
        stored = queries.NODE.find_one(self._db, node_id=node_id, projection=WITHOUT_COMMENTS)
        if stored is None:
            raise _unknown(node_id)
        return cast(Node, stored)

    def _child(self, parent_id: str | None, slug: str) -> Node:
        child = queries.CHILD.find_one(self._db, parent_id=parent_id, slug=slug, projection=WITHOUT_COMMENTS)
        if child is None:
            raise _no_child(slug)
        return cast(Node, child)

    def _former_child(self, parent_id: str | None, slug: str) -> Node:
        """Return the last node that had this parent and slug."""
        former = queries.FORMERLY_AT.find(self._db, parent_id=parent_id, slug=slug, limit=1, projection={"node_id": 1})
        revision = next(former, None)
        if revision is None:
            raise _no_child(slug)
        return self._current(revision["node_id"])

    # ---- permissions ----

    @operation(reads_only=True)
    def readable(self, nodes: list[Node], viewer: Viewer) -> list[Node]:
        """Return those of the given nodes that the viewer may see."""
        if viewer.trusted:
            return [node for node in nodes if viewer.may("read", access_rules.NOBODY, node)]
        access = self._accesses(nodes)
        return [node for node in nodes if self._may_see(node, access[node["_id"]], viewer)]

    @operation(reads_only=True)
    def readable_ids(self, node_ids: Iterable[str], viewer: Viewer) -> set[str]:
        """Return the ids of those nodes that exist and that the viewer may see."""
        return {node["_id"] for node in self.readable(self._by_ids(node_ids), viewer)}

    @operation(reads_only=True)
    def moderated(self, node_ids: Iterable[str], viewer: Viewer) -> set[str]:
        """Return the ids of those nodes whose comments the viewer may moderate.

        The viewer may edit such a node, or may read the node and is an editor or admin.
        """
        nodes = self._by_ids(node_ids)
        access = self._accesses(nodes)
        return {
            node["_id"]
            for node in nodes
            if viewer.may("edit", access[node["_id"]], node)
            or (viewer.moderates and self._may_see(node, access[node["_id"]], viewer))
        }

    @operation(30, reads_only=True)
    def editable(self, node: Node | str, viewer: Viewer) -> Node:
        """Return the current node if the viewer may edit it.

        Raises: `UnknownNode`, `Forbidden`.
        """
        current = self._current(node)
        if viewer.trusted:
            return self._require_visible(current, access_rules.NOBODY, viewer)
        access = self._access_of(current)
        if viewer.may("edit", access, current):
            return current
        self._require_visible(current, access, viewer)
        raise Forbidden("you may not edit this node")

    @operation(reads_only=True)
    def may_edit(self, node: Node | None, viewer: Viewer) -> bool:
        """Return whether the viewer may edit the node (None: create nodes at the top level)."""
        return viewer.may("edit", self._access_of(node), node)

    @operation(30, reads_only=True)
    def parent_for(self, parent: Node | str | None, viewer: Viewer) -> Node | None:
        """Return the current parent document if the viewer may create nodes below it; None is the top level.

        Raises: `UnknownNode`, `Forbidden`, `LimitReached` if the tree would become too deep.
        """
        above = self._current(parent) if parent is not None else None
        folders = self.ancestors(above) if above else []
        access = self._access_of(above, folders)
        if not viewer.may("edit", access, above):
            if above:
                self._require_visible(above, access, viewer)
            raise Forbidden("you may not create nodes here")
        if len(folders) + 2 > MAX_DEPTH:
            raise too_deep()
        return above

    def _by_ids(self, node_ids: Iterable[str]) -> list[Node]:
        nodes = queries.NODES_BY_ID.find(self._db, node_ids=sorted(set(node_ids)), projection=WITHOUT_COMMENTS)
        return cast(list[Node], list(nodes))

    def _access_of(self, node: Node | None, above: Iterable[Node] = ()) -> Access:
        """Return the node's own or inherited access; None is the top level. Ancestors in `above` are not read again."""
        return self._accesses([node], above)[node["_id"]] if node else self._top_access

    def _accesses(self, nodes: list[Node], above: Iterable[Node] = ()) -> dict[str, Access]:
        return access_rules.effective(self._db, nodes, above, top=self._top_access, now=self._clock())

    def _readable(self, node: Node, viewer: Viewer) -> Node:
        access = access_rules.NOBODY if viewer.trusted else self._access_of(node)  # which a trusted viewer needs not
        return self._require_visible(node, access, viewer)

    def _require_visible(self, node: Node, access: Access, viewer: Viewer) -> Node:
        if not self._may_see(node, access, viewer):
            raise _unknown(node["_id"])
        return node

    def _may_see(self, node: Node, access: Access, viewer: Viewer) -> bool:
        published = access_rules.is_published(node["metadata"], self._clock())
        return viewer.may("read" if published else "edit", access, node)

    # ---- lists ----

    @operation(reads_only=True)
    def children(
        self, parent: Node | str | None, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Node]:
        """Return a page of the children of `parent`, sorted by slug; drafts only if the viewer may edit them.

        Raises: `Invalid`.
        """
        return self._page(queries.CHILDREN, viewer, cursor, limit, parent_id=_id_or_none(parent))

    @operation(reads_only=True)
    def recent(
        self, parent: Node | str | None, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Node]:
        """Return a page of the published children of `parent`, newest first; scheduled ones from their time on.

        Raises: `Invalid`.
        """
        return self._page(queries.RECENT, viewer, cursor, limit, parent_id=_id_or_none(parent), now=self._clock())

    @operation(reads_only=True)
    def tagged(self, tag: str, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED) -> Page[Node]:
        """Return a page of all published nodes with this tag, of any type and parent, newest first.

        Raises: `Invalid`.
        """
        tags = rules.checked_tags([tag])
        return self._page(queries.TAGGED, viewer, cursor, limit, tag=tags[0], now=self._clock())

    @operation(reads_only=True)
    def unpublished(
        self, parent: Node | str | None, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Node]:
        """Return a page of the drafts and scheduled nodes below `parent` that the viewer may edit.

        Scheduled nodes come first, sorted by time of publication, the latest first.

        Raises: `Invalid`.
        """
        return self._page(queries.UNPUBLISHED, viewer, cursor, limit, parent_id=_id_or_none(parent), now=self._clock())

    def _page(self, query: Query, viewer: Viewer, cursor: str | None, limit: int, **arguments: Any) -> Page[Node]:
        """Return a page of the nodes that the viewer may see; reads on, a bounded number of times, to fill it."""

        def read(at: str | None) -> Page[Node]:
            nodes = page(self._db, query, cursor=at, limit=limit, projection=WITHOUT_COMMENTS, **arguments)
            return cast(Page[Node], nodes)

        return filtered_page(read, lambda nodes: self.readable(nodes, viewer), query.sort, cursor, limit)

    @operation(reads_only=True)
    def history(
        self, node: Node | str, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Revision]:
        """Return a page of the node's versions, newest first; the newest equals the current node.

        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        current = self.editable(node, viewer)
        return cast(Page[Revision], page(self._db, queries.HISTORY, cursor=cursor, limit=limit, node_id=current["_id"]))


def _id_or_none(parent: Node | str | None) -> str | None:
    return rules.id_of(parent) if parent is not None else None


def _slugs_of(path: str) -> list[str]:
    """Return the slugs of a path, or raise `UnknownNode` for a path that no node can have."""
    parts = [part for part in checks.text(path, "path", max_length=4_000).split("/") if part]
    try:
        if 1 <= len(parts) <= MAX_DEPTH:
            return [rules.checked_slug(part) for part in parts]
    except Invalid:
        pass
    raise _nothing_at(path)


def _nothing_at(path: str) -> UnknownNode:
    return UnknownNode(f"there is no node at {path!r}")


def _unknown(node_id: str) -> UnknownNode:
    return UnknownNode(f"there is no node {node_id}", node_id=node_id)


def _no_child(slug: str) -> UnknownNode:
    return UnknownNode(f"there is no node with the slug {slug!r} here", slug=slug)


def too_deep() -> LimitReached:
    """Return the error for a tree with too many levels."""
    return LimitReached(f"nodes may be at most {MAX_DEPTH} levels deep", limit=MAX_DEPTH)
