"""Moves of nodes, and the lookup of former paths."""

from __future__ import annotations

from datetime import datetime

from squinney import checks
from squinney.content.documents import Author
from squinney.content.errors import UnknownNode
from squinney.content.nodes import queries, rules
from squinney.content.nodes.access import Viewer
from squinney.content.nodes.documents import MOST_DEPTH, NODES, Node
from squinney.content.nodes.visible import VisibleNodes, no_child, too_deep
from squinney.errors import Invalid
from squinney.mongo.schema import Db
from squinney.patterns.nonces import new_nonce
from squinney.transactions import Plan, Step

BATCH = 1_000


def parts_of(path: str) -> list[str]:
    """Return the slugs of a path, or raise `UnknownNode` for a path that no node can have."""
    parts = [part for part in checks.text(path, "path", most=4_000).split("/") if part]
    if not 1 <= len(parts) <= MOST_DEPTH:
        raise UnknownNode(f"there is no node at {path!r}")
    try:
        return [rules.checked_slug(part) for part in parts]
    except Invalid:
        raise UnknownNode(f"there is no node at {path!r}") from None


def plan(
    db: Db,
    visible_nodes: VisibleNodes,
    node: Node | str,
    parent: Node | str | None,
    slug: str | None,
    *,
    by: Author | None,
    viewer: Viewer,
    now: datetime,
) -> Plan:
    """Return the plan of a move; the moved node is its result."""
    current = visible_nodes.editable(node, viewer)
    above = visible_nodes.parent_for(parent, viewer)
    folders = [above, *visible_nodes.ancestors(above)] if above else []
    if current["_id"] in [folder["_id"] for folder in folders]:
        raise Invalid("a node cannot be moved into itself", field="parent")
    old_parent_id, new_parent_id = current["metadata"]["parent_id"], above["_id"] if above else None
    new_slug = slug or current["metadata"]["slug"]
    _require_free(db, new_parent_id, new_slug, current)
    after = rules.changed(current, {"parent_id": new_parent_id, "slug": new_slug}, now, new_nonce())
    steps = [rules.move_step(current, after)]
    if old_parent_id != new_parent_id:
        _require_depth(db, current, len(folders) + 1)
        steps += _count_steps(visible_nodes, old_parent_id, above)
    steps += rules.unmoved_steps(folders, without=[step.id for step in steps])
    steps.append(rules.revision_step(after, by or current["metadata"]["author"], now))
    return Plan(steps, result=after)


def _require_depth(db: Db, node: Node, depth: int) -> None:
    """Require that the tree below the node fits at this depth; reads one level of folders at a time."""
    folders = [node["_id"]] if node["metadata"]["num_children"] else []
    while folders:
        depth += 1
        if depth > MOST_DEPTH:
            raise too_deep()
        batches = [folders[at : at + BATCH] for at in range(0, len(folders), BATCH)]
        found = [queries.FOLDERS.find(db, parent_ids=batch, projection={"_id": 1}) for batch in batches]
        folders = [folder["_id"] for some in found for folder in some]


def _require_free(db: Db, parent_id: str | None, slug: str, current: Node) -> None:
    found = db[NODES].find_one(queries.CHILD(parent_id=parent_id, slug=slug), {"_id": 1})
    if found and found["_id"] != current["_id"]:
        raise rules.slug_taken(slug)


def _count_steps(visible_nodes: VisibleNodes, old_parent_id: str | None, above: Node | None) -> list[Step]:
    steps = []
    if old_parent_id is not None:
        steps.append(rules.children_step(visible_nodes.current(old_parent_id), -1))
    if above is not None:
        steps.append(rules.children_step(above, 1))
    return steps


def formerly_at(db: Db, visible_nodes: VisibleNodes, path: str) -> Node:
    """Return the node that had this path before it, or a folder above it, was moved.

    Every version stores the node's parent and slug at that time, so the history is enough. It is queried only for the
    segments of the path that no node has now.

    Raises: `UnknownNode`, `Invalid`.
    """
    parent_id: str | None = None
    for part in parts_of(path):
        try:
            node = visible_nodes.child(parent_id, part)
        except UnknownNode:
            node = _former_child(db, visible_nodes, parent_id, part)
        parent_id = node["_id"]
    return node


def _former_child(db: Db, visible_nodes: VisibleNodes, parent_id: str | None, slug: str) -> Node:
    """Return the last node that had this parent and slug."""
    found = list(queries.FORMERLY_AT.find(db, parent_id=parent_id, slug=slug, limit=1, projection={"node_id": 1}))
    if not found:
        raise no_child(slug)
    return visible_nodes.current(found[0]["node_id"])
