"""`Nodes`: the tree of pages, blog entries and photos, with versions and access control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from pymongo import ReturnDocument

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.content.comments import conversion
from squinney.content.documents import Author
from squinney.content.errors import UnknownNode
from squinney.content.nodes import access as access_rules
from squinney.content.nodes import moving, queries, rules, versions
from squinney.content.nodes.access import DEFAULT_ACCESS, TRUSTED, Viewer
from squinney.content.nodes.documents import (
    MOST_TAGS,
    NODE_COLLECTIONS,
    NODES,
    REVISIONS,
    WITHOUT_COMMENTS,
    Access,
    Node,
    Revision,
)
from squinney.content.nodes.rules import id_of
from squinney.content.nodes.visible import VisibleNodes
from squinney.errors import Conflict, LimitReached
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.prepared import require_unique
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, page
from squinney.transactions import Plan, Transactions


class Nodes:
    """The tree of nodes.

    Methods that take a `node` accept the document or its id; with the document, the query goes to one shard. `viewer`
    is the user on whose behalf the method runs. The default is the application itself, which may see and change
    everything. If the viewer may not read a node, or the node is not published yet, methods raise `UnknownNode`, as if
    the node did not exist.
    """

    def __init__(
        self,
        db: Db,
        *,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
        top_access: Access = DEFAULT_ACCESS,
    ) -> None:
        self._db = pinned(db)
        self._transactions = transactions or Transactions(db)
        self._clock = clock
        self._visible = VisibleNodes(self._db, clock, access_rules.checked(top_access))

    # ---- create and read ----

    @operation()
    def create(
        self,
        parent: Node | str | None,
        slug: str,
        type: str,
        title: str,
        author: Author,
        detail: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        *,
        published: datetime | None = None,
        viewer: Viewer = TRUSTED,
    ) -> Node:
        """Create a node below `parent` (None: at the top level). Without `published`, the node is a draft.

        Atomic: one transaction writes the node, its first revision and its parent's count of children.
        After a crash: nothing remains, or in two-phase mode an invisible stub that `recover-transactions` removes.
        Raises: `Invalid`, `UnknownNode` for the parent, `Forbidden`, `SlugTaken`, `LimitReached`, `NotPrepared`.
        """
        require_unique(self._db, NODES, NODE_COLLECTIONS)
        node = rules.new_node(self._clock(), slug, type, title, author, detail or {}, tags, published)

        def build() -> Plan:
            above = self._visible.parent_for(parent, viewer)
            return Plan(rules.create_steps(node, above), result=node)

        return cast(Node, self._transactions.run("create-node", build).result)

    @operation(reads_only=True)
    def parent_for(self, parent: Node | str | None, viewer: Viewer) -> Node | None:
        """Return the current parent document if the viewer may create nodes below it; None is the top level.

        Raises: `UnknownNode`, `Forbidden`, `LimitReached` if the tree would become too deep.
        """
        return self._visible.parent_for(parent, viewer)

    @operation(reads_only=True)
    def get(self, parent: Node | str | None, slug: str, *, viewer: Viewer = TRUSTED) -> Node:
        """Return the child of `parent` with this slug.

        Raises: `UnknownNode`, `Invalid`.
        """
        parent_id = id_of(parent) if parent is not None else None
        return self._visible.readable(self._visible.child(parent_id, rules.checked_slug(slug)), viewer)

    @operation(reads_only=True)
    def by_id(self, node_id: str, *, viewer: Viewer = TRUSTED) -> Node:
        """Return the node with this id.

        Raises: `UnknownNode`, `Invalid`.
        """
        return self._visible.readable(self._visible.current(node_id), viewer)

    @operation(reads_only=True)
    def by_path(self, path: str, *, viewer: Viewer = TRUSTED) -> Node:
        """Return the node at a path such as "/blog/2026-11-hello", with one read per path segment.

        Raises: `UnknownNode`, `Invalid`.
        """
        *above, node = self._visible.on_path(moving.parts_of(path))
        return self._visible.require_visible(node, self._visible.access_of(node, above), viewer)

    @operation(reads_only=True)
    def moved_to(self, path: str, *, viewer: Viewer = TRUSTED) -> str:
        """Return the current path of the node that had this `path` before it, or a folder above it, was moved.

        Raises: `UnknownNode`, also if the viewer may not see the node; `Invalid`.
        """
        return self._visible.path_of(self._visible.readable(moving.formerly_at(self._db, self._visible, path), viewer))

    @operation(reads_only=True)
    def path_of(self, node: Node | str) -> str:
        """Return the path at which `by_path` finds the node.

        Raises: `UnknownNode`.
        """
        return self._visible.path_of(self._visible.current(node))

    @operation(reads_only=True)
    def ancestors(self, node: Node) -> list[Node]:
        """Return the nodes above this node, the parent first, without a check of access."""
        return self._visible.ancestors(node)

    @operation(reads_only=True)
    def readable(self, nodes: list[Node], viewer: Viewer) -> list[Node]:
        """Return those of the given nodes that the viewer may see."""
        return self._visible.only_visible(nodes, viewer)

    @operation(reads_only=True)
    def moderated(self, node_ids: Iterable[str], viewer: Viewer) -> set[str]:
        """Return the ids of those nodes whose comments the viewer may moderate.

        The viewer may edit such a node, or may read the node and is an editor or admin.
        """
        return self._visible.only_moderated(node_ids, viewer)

    # ---- lists ----

    @operation(reads_only=True)
    def children(
        self, parent: Node | str | None, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Node]:
        """Return a page of the children of `parent`, sorted by slug; drafts only if the viewer may edit them.

        Raises: `Invalid`.
        """
        parent_id = id_of(parent) if parent is not None else None
        return self._visible.page(queries.CHILDREN, viewer, cursor, limit, parent_id=parent_id)

    @operation(reads_only=True)
    def recent(
        self, parent: Node | str | None, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Node]:
        """Return a page of the published children of `parent`, newest first; scheduled ones from their time on.

        Raises: `Invalid`.
        """
        parent_id = id_of(parent) if parent is not None else None
        now = self._clock()
        return self._visible.page(queries.RECENT, viewer, cursor, limit, parent_id=parent_id, now=now)

    @operation(reads_only=True)
    def tagged(self, tag: str, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED) -> Page[Node]:
        """Return a page of all published nodes with this tag, of any type and parent, newest first.

        Raises: `Invalid`.
        """
        tags = rules.checked_tags([tag])
        return self._visible.page(queries.TAGGED, viewer, cursor, limit, tag=tags[0], now=self._clock())

    @operation(reads_only=True)
    def unpublished(
        self, parent: Node | str | None, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Node]:
        """Return a page of the drafts and scheduled nodes below `parent` that the viewer may edit.

        Scheduled nodes come first, sorted by time of publication, the latest first.

        Raises: `Invalid`.
        """
        parent_id = id_of(parent) if parent is not None else None
        now = self._clock()
        return self._visible.page(queries.UNPUBLISHED, viewer, cursor, limit, parent_id=parent_id, now=now)

    # ---- edit ----

    @operation(30)
    def edit(
        self,
        node: Node | str,
        nonce: str,
        changes: Mapping[str, Any],
        *,
        by: Author | None = None,
        session: str | None = None,
        viewer: Viewer = TRUSTED,
    ) -> Node:
        """Save a new title, new fields of the detail, or both, unless the node was saved since `nonce` was read.

        `session` identifies one editor window. Saves of the same session never conflict with each other, so an editor
        may send the next save before it has the new nonce from the previous one.

        Atomic: one transaction updates the node, whose nonce must match, and inserts the revision.
        After a crash: nothing remains, or in two-phase mode a locked node that `recover-transactions` releases.
        Raises: `EditConflict` with the versions `base`, `theirs` and `yours`; `Invalid`, `UnknownNode`, `Forbidden`.
        """
        checks.text(nonce, "nonce", least=1, most=64)
        editor = rules.checked_author(by, "by") if by else None
        if session is not None:
            checks.text(session, "session", least=1, most=64)

        def build() -> Plan:
            current = self._visible.editable(node, viewer)
            checked = rules.checked_changes(current["metadata"]["type"], changes)
            if current["metadata"]["nonce"] != nonce:
                versions.require_same_session_since(self._db, current, nonce, checked, session)
            return versions.plan(current, checked, editor, self._clock(), session=session)

        return cast(Node, self._transactions.run("edit-node", build).result)

    @operation(reads_only=True)
    def history(
        self, node: Node | str, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Revision]:
        """Return a page of the node's versions, newest first; the newest equals the current node.

        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        current = self._visible.editable(node, viewer)
        return cast(Page[Revision], page(self._db, queries.HISTORY, cursor=cursor, limit=limit, node_id=current["_id"]))

    @operation(30)
    def restore(self, node: Node | str, nonce: str, *, by: Author | None = None, viewer: Viewer = TRUSTED) -> Node:
        """Save an earlier version's title and detail as the newest version. A photo keeps its current file.

        Atomic: as `edit`.
        After a crash: as `edit`.
        Raises: `UnknownNode`, also if the node has no such version; `Forbidden`, `Invalid`.
        """
        checks.text(nonce, "nonce", least=1, most=64)
        editor = rules.checked_author(by, "by") if by else None

        def build() -> Plan:
            current = self._visible.editable(node, viewer)
            earlier = self._db[REVISIONS].find_one(queries.REVISION(node_id=current["_id"], nonce=nonce))
            if earlier is None:
                raise UnknownNode(f"the node has no version {nonce}", nonce=nonce)
            return versions.plan(current, versions.restored(earlier), editor, self._clock())

        return cast(Node, self._transactions.run("restore-node", build).result)

    # ---- single updates, which do not check the nonce ----

    @operation()
    def add_tags(self, node: Node | str, tags: Iterable[str], *, viewer: Viewer = TRUSTED) -> Node:
        """Add tags to the node.

        Atomic: one update.
        After a crash: the tags were added or not.
        Raises: `UnknownNode`, `Forbidden`, `Invalid`, `LimitReached`.
        """
        return self.change_tags(node, add=tags, viewer=viewer)

    @operation()
    def remove_tags(self, node: Node | str, tags: Iterable[str], *, viewer: Viewer = TRUSTED) -> Node:
        """Remove tags from the node.

        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        return self.change_tags(node, remove=tags, viewer=viewer)

    @operation()
    def change_tags(
        self, node: Node | str, *, add: Iterable[str] = (), remove: Iterable[str] = (), viewer: Viewer = TRUSTED
    ) -> Node:
        """Remove some tags and add others in one update.

        Raises: `UnknownNode`, `Forbidden`, `Invalid`, `LimitReached`.
        """
        added, removed = rules.checked_tags(add), rules.checked_tags(remove)
        tags = rules.changed_tags(added, removed)
        room = {"$expr": {"$lte": [{"$size": tags}, MOST_TAGS]}}
        try:
            return self._set(node, [{"$set": {"metadata.tags": tags}}], viewer, room)
        except Conflict:
            current = self._visible.editable(node, viewer)["metadata"]["tags"]
            if len({*current, *added} - ({*removed} - {*added})) <= MOST_TAGS:
                raise
            raise LimitReached(f"a node has at most {MOST_TAGS} tags", limit=MOST_TAGS) from None

    @operation()
    def publish(self, node: Node | str, at: datetime | None = None, *, viewer: Viewer = TRUSTED) -> Node:
        """Publish the node now, or schedule it: the node appears in lists, feeds and pages from the time `at` on.

        Without `at`, a node that is already published keeps its time of publication.

        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        if at is not None:
            return self._set(node, {"$set": {"metadata.published": checks.time(at, "at")}}, viewer)
        since = rules.published_since(checks.time(self._clock(), "clock"))
        return self._set(node, [{"$set": {"metadata.published": since}}], viewer)

    @operation()
    def unpublish(self, node: Node | str, *, viewer: Viewer = TRUSTED) -> Node:
        """Make the node a draft again.

        Raises: `UnknownNode`, `Forbidden`.
        """
        return self._set(node, {"$set": {"metadata.published": None}}, viewer)

    @operation()
    def set_access(self, node: Node | str, access: Mapping[str, Any] | None, *, viewer: Viewer = TRUSTED) -> Node:
        """Set who may read and edit the node; None makes the node inherit its parent's access again.

        Nodes below that have no access of their own follow at once, because access is inherited on reading.

        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        if access is None:
            return self._set(node, {"$unset": {"metadata.access": ""}}, viewer)
        return self._set(node, {"$set": {"metadata.access": access_rules.checked(access)}}, viewer)

    def _set(self, node: Node | str, update: Any, viewer: Viewer, guard: Document | None = None) -> Node:
        current = self._visible.editable(node, viewer)
        while True:
            where = rules.filter_of(current)
            found = self._db[NODES].find_one_and_update(
                {**where, **(guard or {})},
                update,
                projection=WITHOUT_COMMENTS,
                return_document=ReturnDocument.AFTER,
            )
            if found is not None:
                return cast(Node, found)
            current = self._visible.editable(node, viewer)  # the node may have been moved in the meantime
            if rules.filter_of(current) == where:
                raise Conflict("the node's current state does not permit this update")

    # ---- move and remove ----

    @operation(30)
    def move(
        self,
        node: Node | str,
        parent: Node | str | None,
        slug: str | None = None,
        *,
        by: Author | None = None,
        viewer: Viewer = TRUSTED,
    ) -> Node:
        """Move the node, with the whole tree below it, to another parent or slug.

        Atomic: one transaction updates the node and both parents' counts, and inserts the revision. It also requires
        that no folder above the new parent was moved, so concurrent moves cannot create a cycle.
        After a crash: nothing remains, or in two-phase mode locked nodes that `recover-transactions` releases.
        Raises: `UnknownNode`, `Forbidden`, `SlugTaken`, `Invalid` for a parent inside the node, `LimitReached`.
        """
        if slug is not None:
            rules.checked_slug(slug)
        editor = rules.checked_author(by, "by") if by else None

        def build() -> Plan:
            now = self._clock()
            return moving.plan(self._db, self._visible, node, parent, slug, by=editor, viewer=viewer, now=now)

        return cast(Node, self._transactions.run("move-node", build).result)

    @operation(30)
    def remove(self, node: Node | str, *, viewer: Viewer = TRUSTED) -> None:
        """Remove a node that has no children.

        The next sweep deletes the node's history and comments; its files are deleted an hour later.

        Atomic: one transaction deletes the node, updates its parent's count and inserts the record for the sweep.
        After a crash: nothing remains, or in two-phase mode a locked node that `recover-transactions` releases.
        `sweep-content` deletes the history, comments and files.
        Raises: `UnknownNode`, `Forbidden`, `NotEmpty`.
        """

        def build() -> Plan:
            current = self._visible.editable(node, viewer)
            parent_id = current["metadata"]["parent_id"]
            parent = self._visible.current(parent_id) if parent_id is not None else None
            if frozen := current["metadata"].get("discussion", {}).get("frozen"):
                conversion.thaw_if_expired(self._db, current["_id"], frozen)
            return Plan(rules.remove_steps(current, parent, self._clock()))

        self._transactions.run("remove-node", build)

    # ---- permissions ----

    @operation(reads_only=True)
    def editable(self, node: Node | str, viewer: Viewer) -> Node:
        """Return the current node if the viewer may edit it.

        Raises: `UnknownNode`, `Forbidden`.
        """
        return self._visible.editable(node, viewer)

    @operation(reads_only=True)
    def may_edit(self, node: Node | None, viewer: Viewer) -> bool:
        """Return whether the viewer may edit the node (None: create nodes at the top level)."""
        return viewer.may("edit", self._visible.access_of(node), node)
