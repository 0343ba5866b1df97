"""`Nodes`: the tree of pages, blog entries and photos, with versions and access control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from pymongo import ReturnDocument
from pymongo.client_session import ClientSession

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.content.documents import Author
from squinney.content.errors import UnknownNode
from squinney.content.nodes import access as access_rules
from squinney.content.nodes import queries, rules, versions
from squinney.content.nodes.access import DEFAULT_ACCESS, TRUSTED, Viewer
from squinney.content.nodes.documents import (
    MAX_DEPTH,
    MAX_TAGS,
    NODE_COLLECTIONS,
    NODES,
    WITHOUT_COMMENTS,
    Access,
    Node,
)
from squinney.content.nodes.freezing import thaw_if_expired
from squinney.content.nodes.steps import (
    changed_tags,
    children_step,
    create_steps,
    move_step,
    published_since,
    remove_steps,
    slug_taken,
    unmoved_steps,
)
from squinney.content.nodes.visible import VisibleNodes, too_deep
from squinney.errors import Conflict, Invalid, LimitReached
from squinney.mongo.deadlines import operation
from squinney.mongo.prepared import require_unique
from squinney.mongo.schema import Db, Document
from squinney.patterns.nonces import EditConflict
from squinney.transactions import Plan, Step, Transactions, once

BATCH = 1_000


class _Unmatched(Exception):
    """No node matches an update."""


class Nodes(VisibleNodes):
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
        super().__init__(db, clock, top_access)
        self._transactions = transactions or Transactions(db)

    # ---- create and edit ----

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
        kept_for: str | None = None,
        viewer: Viewer = TRUSTED,
        also: Sequence[Step] = (),
    ) -> Node:
        """Create a node below `parent` (None: at the top level). Without `published`, the node is a draft.

        `kept_for` names another system that decides who may see the node; here only its author and admins may.

        Atomic: one transaction writes the node, its first revision and its parent's count of children.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownNode` for the parent, `Forbidden`, `SlugTaken`, `LimitReached`, `NotPrepared`.
        """
        require_unique(self._db, NODES, NODE_COLLECTIONS)
        node = rules.new_node(self._clock(), slug, type, title, author, detail or {}, tags, published, kept_for)

        def build() -> Plan:
            above = self.parent_for(parent, viewer)
            return Plan(create_steps(node, above), result=node).also(also)

        return cast(Node, self._transactions.run("create-node", build).result)

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
        also: Sequence[Step] = (),
    ) -> Node:
        """Save a new title, new fields of the detail, or both, unless the node was saved since `nonce` was read.

        `session` identifies one editor window. Saves of the same session never conflict with each other, so an editor
        may send the next save before it has the new nonce from the previous one.

        Atomic: one transaction updates the node, whose nonce must match, and inserts the revision.
        After a crash: nothing remains.
        Raises: `EditConflict` with the versions `base`, `theirs` and `yours`; `Invalid`, `UnknownNode`, `Forbidden`.
        """
        checks.text(nonce, "nonce", min_length=1, max_length=64)
        editor = rules.checked_author(by, "by") if by else None
        if session is not None:
            checks.text(session, "session", min_length=1, max_length=64)

        def build() -> Plan:
            current = self.editable(node, viewer)
            checked = rules.checked_changes(current["metadata"]["type"], changes)
            # guard: an edit with an old nonce is a conflict
            if current["metadata"]["nonce"] != nonce:
                versions.require_same_session_since(self._db, current, nonce, checked, session)
            return versions.plan(current, checked, editor, self._clock(), session=session).also(also)

        return cast(Node, self._transactions.run("edit-node", build).result)

    @operation()
    def conflict(self, node: Node | str, nonce: str, *, viewer: Viewer = TRUSTED) -> EditConflict | None:
        """Return the version that had this nonce and the present one; None if that version is unknown or the present.

        Raises: `UnknownNode`, `Forbidden`.
        """
        current = self.editable(node, viewer)
        base = queries.REVISION.find_one(self._db, node_id=current["_id"], nonce=nonce)
        if base is None or current["metadata"]["nonce"] == nonce:
            return None
        return EditConflict(versions.SAVED_SINCE, base=base["metadata"], theirs=current["metadata"])

    @operation(30)
    def restore(
        self,
        node: Node | str,
        nonce: str,
        *,
        by: Author | None = None,
        viewer: Viewer = TRUSTED,
        also: Sequence[Step] = (),
    ) -> Node:
        """Save an earlier version's title and detail as the newest version. A photo keeps its current file.

        Atomic: as `edit`.
        After a crash: as `edit`.
        Raises: `UnknownNode`, also if the node has no such version; `Forbidden`, `Invalid`.
        """
        checks.text(nonce, "nonce", min_length=1, max_length=64)
        editor = rules.checked_author(by, "by") if by else None

        def build() -> Plan:
            current = self.editable(node, viewer)
            earlier = queries.REVISION.find_one(self._db, node_id=current["_id"], nonce=nonce)
            if earlier is None:
                raise UnknownNode(f"the node has no version {nonce}", nonce=nonce)
            return versions.plan(current, versions.restored(earlier), editor, self._clock()).also(also)

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
        tags = changed_tags(added, removed)
        # guard: the number of tags of a node is limited
        room = {"$expr": {"$lte": [{"$size": tags}, MAX_TAGS]}}
        try:
            return self._set(node, [{"$set": {"metadata.tags": tags}}], viewer, room)
        except Conflict:
            current = self.editable(node, viewer)["metadata"]["tags"]
            if len({*current, *added} - ({*removed} - {*added})) <= MAX_TAGS:
                raise
            raise LimitReached(f"a node has at most {MAX_TAGS} tags", limit=MAX_TAGS) from None

    @operation()
    def publish(
        self, node: Node | str, at: datetime | None = None, *, viewer: Viewer = TRUSTED, also: Sequence[Step] = ()
    ) -> Node:
        """Publish the node now, or schedule it: the node appears in lists, feeds and pages from the time `at` on.

        Without `at`, a node that is already published keeps its time of publication.

        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        if at is not None:
            return self._set(node, {"$set": {"metadata.published": checks.time(at, "at")}}, viewer, also=also)
        since = published_since(checks.time(self._clock(), "clock"))
        return self._set(node, [{"$set": {"metadata.published": since}}], viewer, also=also)

    @operation()
    def unpublish(self, node: Node | str, *, viewer: Viewer = TRUSTED, also: Sequence[Step] = ()) -> Node:
        """Make the node a draft again.

        Raises: `UnknownNode`, `Forbidden`.
        """
        return self._set(node, {"$set": {"metadata.published": None}}, viewer, also=also)

    @operation()
    def set_access(self, node: Node | str, access: Mapping[str, Any] | None, *, viewer: Viewer = TRUSTED) -> Node:
        """Set who may read and edit the node; None makes the node inherit its parent's access again.

        Nodes below that have no access of their own follow at once, because access is inherited on reading.

        Raises: `UnknownNode`, `Forbidden`, `Invalid`.
        """
        if access is None:
            return self._set(node, {"$unset": {"metadata.access": ""}}, viewer)
        return self._set(node, {"$set": {"metadata.access": access_rules.checked(access)}}, viewer)

    @operation()
    def keep_children(self, folder: Node, kept_for: str) -> int:
        """Mark a folder and its children as kept for another system, if they are not yet; return how many were not.

        Atomic: each node separately.
        After a crash: some nodes may not be marked; call it again.
        """
        where = queries.NOT_KEPT(folder_id=folder["_id"])
        return self._db[NODES].update_many(where, {"$set": {"metadata.kept_for": kept_for}}).modified_count

    def _set(
        self,
        node: Node | str,
        update: Any,
        viewer: Viewer,
        guard: Document | None = None,
        also: Sequence[Step] = (),
    ) -> Node:
        current = self.editable(node, viewer)
        while True:
            where = queries.filter_of(current)
            if (changed := self._update({**where, **(guard or {})}, update, also)) is not None:
                return cast(Node, changed)
            current = self.editable(node, viewer)  # the node may have been moved in the meantime
            # guard: an update is repeated if the node was moved meanwhile
            if queries.filter_of(current) == where:
                raise Conflict("the node's current state does not permit this update")

    def _update(self, where: Document, update: Any, also: Sequence[Step]) -> Document | None:
        """Update one node, with further steps in one transaction; return the node, or None if none matches."""

        def work(session: ClientSession | None = None) -> Document:
            node = self._db[NODES].find_one_and_update(
                where,
                update,
                projection=WITHOUT_COMMENTS,
                return_document=ReturnDocument.AFTER,
                session=session,
            )
            if node is None:
                raise _Unmatched
            return node

        try:
            return once(self._db, "change-node", work, also=also, own={NODES}) if also else work()
        except _Unmatched:
            return None

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
        also: Sequence[Step] = (),
    ) -> Node:
        """Move the node, with the whole tree below it, to another parent or slug.

        Atomic: one transaction updates the node and both parents' counts, and inserts the revision. It also requires
        that no folder above the new parent was moved, so concurrent moves cannot create a cycle.
        After a crash: nothing remains.
        Raises: `UnknownNode`, `Forbidden`, `SlugTaken`, `Invalid` for a parent inside the node, `LimitReached`.
        """
        if slug is not None:
            rules.checked_slug(slug)
        editor = rules.checked_author(by, "by") if by else None

        def build() -> Plan:
            return self._move_plan(self.editable(node, viewer), self.parent_for(parent, viewer), slug, editor).also(
                also
            )

        return cast(Node, self._transactions.run("move-node", build).result)

    def _move_plan(self, current: Node, above: Node | None, slug: str | None, by: Author | None) -> Plan:
        folders = [above, *self.ancestors(above)] if above else []
        # guard: a node is not moved into itself
        if current["_id"] in [folder["_id"] for folder in folders]:
            raise Invalid("a node cannot be moved into itself", field="parent")
        old_parent_id, new_parent_id = current["metadata"]["parent_id"], above["_id"] if above else None
        new_slug = slug or current["metadata"]["slug"]
        child = queries.CHILD.find_one(self._db, parent_id=new_parent_id, slug=new_slug, projection={"_id": 1})
        if child and child["_id"] != current["_id"]:
            raise slug_taken(new_slug)
        counts: list[Step] = []
        if old_parent_id != new_parent_id:
            self._require_depth(current, len(folders) + 1)
            if old_parent_id is not None:
                counts.append(children_step(self._current(old_parent_id), -1))
            if above is not None:
                counts.append(children_step(above, 1))
        unmoved = unmoved_steps(folders, without=[step.id for step in counts])
        changes = {"parent_id": new_parent_id, "slug": new_slug}
        steps = [*counts, *unmoved]
        return versions.plan(current, changes, by, self._clock(), steps, step_for=move_step)

    def _require_depth(self, node: Node, depth: int) -> None:
        """Require that the tree below the node fits at this depth; reads one level of folders at a time."""
        folders = [node["_id"]] if node["metadata"]["num_children"] else []
        while folders:
            depth += 1
            # guard: the depth of the tree is limited
            if depth > MAX_DEPTH:
                raise too_deep()
            batches = [folders[at : at + BATCH] for at in range(0, len(folders), BATCH)]
            cursors = [queries.FOLDERS.find(self._db, parent_ids=batch, projection={"_id": 1}) for batch in batches]
            folders = [folder["_id"] for some in cursors for folder in some]

    @operation(30)
    def remove(self, node: Node | str, *, viewer: Viewer = TRUSTED, also: Sequence[Step] = ()) -> None:
        """Remove a node that has no children.

        The next run of `delete-leftovers` deletes the node's history and comments; its files are deleted an hour later.

        Atomic: one transaction deletes the node, updates its parent's count and inserts the record of the removal.
        After a crash: nothing remains.
        `delete-leftovers` deletes the history, comments and files.
        Raises: `UnknownNode`, `Forbidden`, `NotEmpty`.
        """

        def build() -> Plan:
            current = self.editable(node, viewer)
            parent_id = current["metadata"]["parent_id"]
            parent = self._current(parent_id) if parent_id is not None else None
            if frozen := current["metadata"].get("discussion", {}).get("frozen"):
                thaw_if_expired(self._db, NODES, current["_id"], frozen)
            return Plan(remove_steps(current, parent, self._clock())).also(also)

        self._transactions.run("remove-node", build)
