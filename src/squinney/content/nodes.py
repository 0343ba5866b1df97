"""`Nodes`: the tree of pages, blog entries, photos, with versions and access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from pymongo import ReturnDocument

from squinney.clock import Clock, utcnow
from squinney.content import access as access_rules
from squinney.content import queries, rules
from squinney.content.access import DEFAULT_ACCESS, TRUSTED, Viewer
from squinney.content.documents import MOST_DEPTH, MOST_TAGS, NODES, WITHOUT_COMMENTS, Access, Author, Node, Revision
from squinney.content.errors import SlugTaken, UnknownNode
from squinney.errors import Conflict, Invalid, LimitReached
from squinney.mongo.connect import operation
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db, Document
from squinney.patterns import checks
from squinney.patterns.nonces import EditConflict, new_nonce
from squinney.patterns.paging import Page, cursor_after, page
from squinney.patterns.transactions import Plan, Transactions

LOOKS = 10


class Nodes:
    """The tree of nodes.

    A method that takes a `node` takes the document or its id; the document routes to one shard. `viewer` is who asks:
    left out, it is the application itself, which may see and do everything. A viewer who may not read a node, or for
    whom it is not yet published, gets `UnknownNode`, as if it were not there.
    """

    def __init__(
        self,
        db: Db,
        *,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
        top_access: Access = DEFAULT_ACCESS,
    ) -> None:
        self._db = db
        self._transactions = transactions or Transactions(db)
        self._clock = clock
        self._top = access_rules.checked(top_access)

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
        """Create a node below `parent` (None: at the top). Without `published` it is a draft.

        Atomic: the node, its first revision and its parent's count of children are one transaction.
        After a crash: nothing, or in two-phase mode an invisible stub that `recover-transactions` removes.
        Raises: `Invalid`, `UnknownNode` for the parent, `Forbidden`, `SlugTaken`, `LimitReached`.
        """
        node = rules.new_node(self._clock(), slug, type, title, author, detail or {}, tags, published)

        def build() -> Plan:
            above = self.parent_for(parent, viewer)
            node["metadata"]["parent_id"] = above["_id"] if above else None
            return Plan(rules.create_steps(node, above), result=node)

        return cast(Node, self._transactions.run("create-node", build).result)

    @operation(reads_only=True)
    def parent_for(self, parent: Node | str | None, viewer: Viewer) -> Node | None:
        """The node under which the viewer may create, as it is now.

        Raises: `UnknownNode`, `Forbidden`, `LimitReached` where the tree would become too deep.
        """
        above = self._current(parent) if parent is not None else None
        if not viewer.may("edit", self._access_of(above), above):
            raise access_rules.forbid("add to")
        if above and len(self.ancestors(above)) + 2 > MOST_DEPTH:
            raise LimitReached(f"nodes are at most {MOST_DEPTH} deep", limit=MOST_DEPTH)
        return above

    @operation(reads_only=True)
    def get(self, parent: Node | str | None, slug: str, *, viewer: Viewer = TRUSTED) -> Node:
        """The child of `parent` with that slug.

        Raises: `UnknownNode`, `Invalid`.
        """
        parent_id = _id_of(parent) if parent is not None else None
        return self._readable(self._child(parent_id, rules.checked_slug(slug)), viewer)

    @operation(reads_only=True)
    def by_id(self, node_id: str, *, viewer: Viewer = TRUSTED) -> Node:
        """The node.

        Raises: `UnknownNode`, `Invalid`.
        """
        return self._readable(self._current(node_id), viewer)

    @operation(reads_only=True)
    def by_path(self, path: str, *, viewer: Viewer = TRUSTED) -> Node:
        """The node at a path such as "/blog/2026-11-hello": one read per part.

        Raises: `UnknownNode`, `Invalid`.
        """
        parts = [part for part in checks.text(path, "path", most=4_000).split("/") if part]
        if not 1 <= len(parts) <= MOST_DEPTH:
            raise UnknownNode(f"there is no {path!r}")
        parent_id: str | None = None
        inherited = self._top
        for part in parts:
            node = self._child(parent_id, rules.checked_slug(part))
            inherited = node["metadata"].get("access") or inherited
            parent_id = node["_id"]
        return self._shown(node, inherited, viewer)

    @operation(reads_only=True)
    def path_of(self, node: Node | str) -> str:
        """The path at which `by_path` finds the node.

        Raises: `UnknownNode`.
        """
        current = self._current(node)
        slugs = [above["metadata"]["slug"] for above in reversed(self.ancestors(current))]
        return "/" + "/".join([*slugs, current["metadata"]["slug"]])

    @operation(reads_only=True)
    def ancestors(self, node: Node) -> list[Node]:
        """The nodes above it, the nearest first."""
        found: list[Node] = []
        parent_id = node["metadata"]["parent_id"]
        while parent_id is not None and len(found) <= MOST_DEPTH:
            found.append(self._current(parent_id))
            parent_id = found[-1]["metadata"]["parent_id"]
        return found

    # ---- lists ----

    @operation(reads_only=True)
    def children(
        self, parent: Node | str | None, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Node]:
        """Everything below `parent`, by slug; drafts only for those who may edit them.

        Raises: `Invalid`.
        """
        parent_id = _id_of(parent) if parent is not None else None
        return self._readable_page(queries.CHILDREN, viewer, cursor, limit, parent_id=parent_id)

    @operation(reads_only=True)
    def recent(
        self, parent: Node | str | None, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Node]:
        """What is published below `parent`, newest first. A scheduled node appears at its time.

        Raises: `Invalid`.
        """
        parent_id = _id_of(parent) if parent is not None else None
        now = self._clock()
        return self._readable_page(queries.RECENT, viewer, cursor, limit, parent_id=parent_id, now=now)

    @operation(reads_only=True)
    def tagged(self, tag: str, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED) -> Page[Node]:
        """What is published with that tag anywhere, pages and photos in one list, newest first.

        Raises: `Invalid`.
        """
        tags = rules.checked_tags([tag])
        return self._readable_page(queries.TAGGED, viewer, cursor, limit, tag=tags[0], now=self._clock())

    @operation(reads_only=True)
    def unpublished(
        self, parent: Node | str | None, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Node]:
        """The drafts and scheduled nodes below `parent` that the viewer may edit, the furthest ahead first.

        Raises: `Invalid`.
        """
        parent_id = _id_of(parent) if parent is not None else None
        now = self._clock()
        return self._readable_page(queries.UNPUBLISHED, viewer, cursor, limit, parent_id=parent_id, now=now)

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
        """Save a new title, new fields of the detail, or both, if nobody has saved since `nonce`.

        `session` names one person's sitting at the editor: saves of the same session that overtake each other's
        answers are applied in turn and never conflict.

        Atomic: the node, found by its nonce, and the revision are one transaction.
        After a crash: nothing, or in two-phase mode a held node that `recover-transactions` settles.
        Raises: `EditConflict` with base, theirs and yours; `Invalid`, `UnknownNode`, `Forbidden`.
        """
        checks.text(nonce, "nonce", least=1, most=64)
        editor = rules.checked_author(by, "by") if by else None
        if session is not None:
            checks.text(session, "session", least=1, most=64)

        def build() -> Plan:
            current = self.editable(node, viewer)
            checked = rules.checked_changes(current["metadata"]["type"], changes)
            if current["metadata"]["nonce"] != nonce:
                self._require_own_saves_since(current, nonce, checked, session)
            return self._edit_plan(current, checked, editor, session)

        return cast(Node, self._transactions.run("edit-node", build).result)

    def _edit_plan(self, current: Node, changes: Document, by: Author | None, session: str | None = None) -> Plan:
        now = self._clock()
        after = rules.changed(current, changes, now, new_nonce())
        revision = rules.revision_step(after, by or current["metadata"]["author"], now, session=session)
        return Plan([rules.edit_step(current, after), revision], result=after)

    def _require_own_saves_since(self, current: Node, nonce: str, changes: Document, session: str | None) -> None:
        base = self._db["content.revisions"].find_one(queries.REVISION(node_id=current["_id"], nonce=nonce))
        if base and session is not None:
            since = queries.SAVED_SINCE.find(
                self._db, node_id=current["_id"], version=base["version"], projection={"session": 1}
            )
            if all(saved["session"] == session for saved in since):
                return
        yours = None
        if base:
            as_node = cast(Node, {"_id": current["_id"], "metadata": base["metadata"]})
            yours = rules.changed(as_node, changes, self._clock(), nonce)["metadata"]
        raise EditConflict(
            "somebody else has saved since you began",
            base=base["metadata"] if base else None,
            theirs=current["metadata"],
            yours=yours or changes,
        )

    @operation(reads_only=True)
    def history(
        self, node: Node | str, *, cursor: str | None = None, limit: int = 50, viewer: Viewer = TRUSTED
    ) -> Page[Revision]:
        """The node's versions, newest first; the first one is the node as it is.

        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        current = self.editable(node, viewer)
        return cast(Page[Revision], page(self._db, queries.HISTORY, cursor=cursor, limit=limit, node_id=current["_id"]))

    @operation(30)
    def restore(self, node: Node | str, nonce: str, *, by: Author | None = None, viewer: Viewer = TRUSTED) -> Node:
        """Save an earlier version's title and detail as the newest version. A photo keeps the file it has.

        Atomic: as `edit`.
        After a crash: as `edit`.
        Raises: `UnknownNode`, also for a version that is not the node's; `Forbidden`, `Invalid`.
        """
        checks.text(nonce, "nonce", least=1, most=64)
        editor = rules.checked_author(by, "by") if by else None

        def build() -> Plan:
            current = self.editable(node, viewer)
            earlier = self._db["content.revisions"].find_one(queries.REVISION(node_id=current["_id"], nonce=nonce))
            if earlier is None:
                raise UnknownNode(f"the node has no version {nonce}", nonce=nonce)
            then = earlier["metadata"]
            detail = {name: value for name, value in then["detail"].items() if name not in rules.FILE_KEYS}
            return self._edit_plan(current, {"title": then["title"], "detail": detail}, editor)

        return cast(Node, self._transactions.run("restore-node", build).result)

    # ---- single updates, which need no nonce ----

    @operation()
    def add_tags(self, node: Node | str, tags: Iterable[str], *, viewer: Viewer = TRUSTED) -> Node:
        """Add tags.

        Atomic: one update.
        After a crash: it happened or it did not.
        Raises: `UnknownNode`, `Forbidden`, `Invalid`, `LimitReached`.
        """
        names = rules.checked_tags(tags)
        if not names:
            return self.editable(node, viewer)
        room = {f"metadata.tags.{MOST_TAGS - len(names)}": {"$exists": False}}
        try:
            return self._set(node, {"$addToSet": {"metadata.tags": {"$each": names}}}, viewer, room)
        except Conflict:
            raise LimitReached(f"a node has at most {MOST_TAGS} tags", limit=MOST_TAGS) from None

    @operation()
    def remove_tags(self, node: Node | str, tags: Iterable[str], *, viewer: Viewer = TRUSTED) -> Node:
        """Remove tags.

        Atomic: one update.
        After a crash: it happened or it did not.
        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        return self._set(node, {"$pull": {"metadata.tags": {"$in": rules.checked_tags(tags)}}}, viewer)

    @operation()
    def publish(self, node: Node | str, at: datetime | None = None, *, viewer: Viewer = TRUSTED) -> Node:
        """Publish the node, now or at a time to come. It appears everywhere at that time and nowhere before.

        Atomic: one update.
        After a crash: it happened or it did not.
        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        when = rules.checked_time(at, "at") if at is not None else self._clock()
        return self._set(node, {"$set": {"metadata.published": when}}, viewer)

    @operation()
    def unpublish(self, node: Node | str, *, viewer: Viewer = TRUSTED) -> Node:
        """Make it a draft again.

        Atomic: one update.
        After a crash: it happened or it did not.
        Raises: `UnknownNode`, `Forbidden`.
        """
        return self._set(node, {"$set": {"metadata.published": None}}, viewer)

    @operation()
    def set_access(self, node: Node | str, access: Mapping[str, Any] | None, *, viewer: Viewer = TRUSTED) -> Node:
        """Say who may read and edit the node and what inherits from it; None inherits again.

        Atomic: one update; nothing is copied to the nodes below, so they follow at once.
        After a crash: it happened or it did not.
        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        if access is None:
            return self._set(node, {"$unset": {"metadata.access": ""}}, viewer)
        return self._set(node, {"$set": {"metadata.access": access_rules.checked(access)}}, viewer)

    def _set(self, node: Node | str, update: Document, viewer: Viewer, guard: Document | None = None) -> Node:
        current = self.editable(node, viewer)
        found = self._db[NODES].find_one_and_update(
            {**rules.place(current), **(guard or {})},
            update,
            projection=WITHOUT_COMMENTS,
            return_document=ReturnDocument.AFTER,
        )
        if found is None:
            raise Conflict("the node was moved or removed just now, or has no room left")
        return cast(Node, found)

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
        """Put the node, with all below it, under another parent or another slug.

        Atomic: the node, both parents' counts and the revision are one transaction, which also requires that no
        folder above the new place has moved: so no circle can come about.
        After a crash: nothing, or in two-phase mode held nodes that `recover-transactions` settles.
        Raises: `UnknownNode`, `Forbidden`, `SlugTaken`, `Invalid` for a place inside itself, `LimitReached`.
        """
        if slug is not None:
            rules.checked_slug(slug)
        editor = rules.checked_author(by, "by") if by else None
        moved = self._transactions.run("move-node", lambda: self._move_plan(node, parent, slug, editor, viewer))
        return cast(Node, moved.result)

    def _move_plan(
        self, node: Node | str, parent: Node | str | None, slug: str | None, by: Author | None, viewer: Viewer
    ) -> Plan:
        current = self.editable(node, viewer)
        above = self.parent_for(parent, viewer)
        chain = [above, *self.ancestors(above)] if above else []
        if current["_id"] in [folder["_id"] for folder in chain]:
            raise Invalid("a node cannot be moved into itself", field="parent")
        now = self._clock()
        place = {"parent_id": above["_id"] if above else None, "slug": slug or current["metadata"]["slug"]}
        self._require_free(place, current)
        after = rules.changed(current, place, now, new_nonce())
        steps = [rules.move_step(current, after)]
        old_parent_id = current["metadata"]["parent_id"]
        if old_parent_id != place["parent_id"]:
            steps += self._count_steps(old_parent_id, above)
        steps += rules.guard_steps(chain, without=[step.id for step in steps])
        steps.append(rules.revision_step(after, by or current["metadata"]["author"], now))
        return Plan(steps, result=after)

    def _require_free(self, place: Document, current: Node) -> None:
        found = self._db[NODES].find_one(queries.CHILD(parent_id=place["parent_id"], slug=place["slug"]), {"_id": 1})
        if found and found["_id"] != current["_id"]:
            raise SlugTaken(f"{place['slug']!r} is taken there", slug=place["slug"])

    def _count_steps(self, old_parent_id: str | None, above: Node | None) -> list[Any]:
        steps = []
        if old_parent_id is not None:
            steps.append(rules.children_step(self._current(old_parent_id), -1))
        if above is not None:
            steps.append(rules.children_step(above, 1))
        return steps

    @operation(30)
    def remove(self, node: Node | str, *, viewer: Viewer = TRUSTED) -> None:
        """Remove a node that has no children. Its history and comments go with the next sweep, its files an hour later.

        Atomic: the node, its parent's count and the note for the sweep are one transaction.
        After a crash: nothing, or in two-phase mode a held node that `recover-transactions` settles; what the node
        leaves behind is deleted by `sweep-content`.
        Raises: `UnknownNode`, `Forbidden`, `NotEmpty`.
        """

        def build() -> Plan:
            current = self.editable(node, viewer)
            parent_id = current["metadata"]["parent_id"]
            parent = self._current(parent_id) if parent_id is not None else None
            return Plan(rules.remove_steps(current, parent, self._clock()))

        self._transactions.run("remove-node", build)

    # ---- inside ----

    @operation(reads_only=True)
    def editable(self, node: Node | str, viewer: Viewer) -> Node:
        """The node as it is now, for somebody who may edit it.

        Raises: `UnknownNode`, `Forbidden`.
        """
        current = self._current(node)
        if viewer.trusted:
            return current
        access = self._access_of(current)
        if viewer.may("edit", access, current):
            return current
        self._shown(current, access, viewer)
        raise access_rules.forbid("edit")

    @operation(reads_only=True)
    def may_edit(self, node: Node | None, viewer: Viewer) -> bool:
        """Whether the viewer may edit the node (None: add to the top)."""
        return viewer.may("edit", self._access_of(node), node)

    def _current(self, node: Node | str) -> Node:
        """As it is now; by its place where that is known, by its id where it was moved since."""
        node_id = _id_of(node)
        if not isinstance(node, str) and "metadata" in node:
            found = self._db[NODES].find_one({**rules.place(node), "txn_stub": None}, WITHOUT_COMMENTS)
            if found:
                return cast(Node, found)
        found = self._db[NODES].find_one(queries.NODE(node_id=node_id), WITHOUT_COMMENTS)
        if found is None:
            raise UnknownNode(f"there is no node {node_id}", node_id=node_id)
        return cast(Node, found)

    def _child(self, parent_id: str | None, slug: str) -> Node:
        found = self._db[NODES].find_one(queries.CHILD(parent_id=parent_id, slug=slug), WITHOUT_COMMENTS)
        if found is None:
            raise UnknownNode(f"there is no {slug!r} here", slug=slug)
        return cast(Node, found)

    def _access_of(self, node: Node | None) -> Access:
        if node is None:
            return self._top
        return access_rules.effective(self._db, [node], top=self._top)[node["_id"]]

    def _readable(self, node: Node, viewer: Viewer) -> Node:
        return node if viewer.trusted else self._shown(node, self._access_of(node), viewer)

    def _shown(self, node: Node, access: Access, viewer: Viewer) -> Node:
        if not self._may_see(node, access, viewer):
            raise UnknownNode(f"there is no node {node['_id']}", node_id=node["_id"])
        return node

    def _may_see(self, node: Node, access: Access, viewer: Viewer) -> bool:
        if not rules.is_published(node, self._clock()):
            return viewer.may("edit", access, node)
        return viewer.may("read", access, node)

    def _readable_page(
        self, query: Query, viewer: Viewer, cursor: str | None, limit: int, **arguments: Any
    ) -> Page[Node]:
        """A page of what the viewer may see: reads on, a bounded number of times, until it is full."""
        if viewer.trusted:
            return self._page(query, cursor, limit, arguments)
        items: list[Node] = []
        for _ in range(LOOKS):
            found = self._page(query, cursor, limit, arguments)
            access = access_rules.effective(self._db, found.items, top=self._top)
            for node in found.items:
                if self._may_see(node, access[node["_id"]], viewer):
                    items.append(node)
                if len(items) == limit:
                    last = node is found.items[-1] and found.next is None
                    return Page(items, None if last else cursor_after(query.sort, node))
            cursor = found.next
            if cursor is None:
                break
        return Page(items, cursor)

    def _page(self, query: Query, cursor: str | None, limit: int, arguments: Document) -> Page[Node]:
        found = page(self._db, query, cursor=cursor, limit=limit, projection=WITHOUT_COMMENTS, **arguments)
        return cast(Page[Node], found)


def _id_of(node: Any) -> str:
    node_id = node.get("_id") if isinstance(node, Mapping) else node
    return checks.identifier(node_id, "node")
