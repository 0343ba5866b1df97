"""Moves, and where moved things are now."""

from __future__ import annotations

from datetime import datetime

from squinney import checks
from squinney.content.documents import Author
from squinney.content.errors import SlugTaken, UnknownNode
from squinney.content.nodes import queries, rules
from squinney.content.nodes.access import Viewer
from squinney.content.nodes.documents import MOST_DEPTH, NODES, Node
from squinney.content.nodes.visible import VisibleNodes
from squinney.errors import Invalid, LimitReached
from squinney.mongo.schema import Db, Document
from squinney.patterns.nonces import new_nonce
from squinney.transactions import Plan, Step

BATCH = 1_000


def parts_of(path: str) -> list[str]:
    """The slugs of a path.

    Raises: `UnknownNode` for one that no node can have, `Invalid`.
    """
    parts = [part for part in checks.text(path, "path", most=4_000).split("/") if part]
    if not 1 <= len(parts) <= MOST_DEPTH:
        raise UnknownNode(f"there is no {path!r}")
    try:
        return [rules.checked_slug(part) for part in parts]
    except Invalid:
        raise UnknownNode(f"there is no {path!r}") from None


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
    """The steps of a move."""
    current = visible_nodes.editable(node, viewer)
    above = visible_nodes.parent_for(parent, viewer)
    chain = [above, *visible_nodes.ancestors(above)] if above else []
    if current["_id"] in [folder["_id"] for folder in chain]:
        raise Invalid("a node cannot be moved into itself", field="parent")
    if current["metadata"]["parent_id"] != (above["_id"] if above else None):
        _require_depth(db, current, len(chain) + 1)
    place = {"parent_id": above["_id"] if above else None, "slug": slug or current["metadata"]["slug"]}
    _require_free(db, place, current)
    after = rules.changed(current, place, now, new_nonce())
    steps = [rules.move_step(current, after)]
    old_parent_id = current["metadata"]["parent_id"]
    if old_parent_id != place["parent_id"]:
        steps += _count_steps(visible_nodes, old_parent_id, above)
    steps += rules.guard_steps(chain, without=[step.id for step in steps])
    steps.append(rules.revision_step(after, by or current["metadata"]["author"], now))
    return Plan(steps, result=after)


def _require_depth(db: Db, node: Node, depth: int) -> None:
    """At that depth the node's own tree is not too deep: asked level by level, of what has children.

    Raises: `LimitReached`.
    """
    folders = [node["_id"]] if node["metadata"]["num_children"] else []
    while folders:
        depth += 1
        if depth > MOST_DEPTH:
            raise LimitReached(f"nodes are at most {MOST_DEPTH} deep", limit=MOST_DEPTH)
        batches = [folders[at : at + BATCH] for at in range(0, len(folders), BATCH)]
        found = [queries.FOLDERS.find(db, parent_ids=batch, projection={"_id": 1}) for batch in batches]
        folders = [folder["_id"] for some in found for folder in some]


def _require_free(db: Db, place: Document, current: Node) -> None:
    found = db[NODES].find_one(queries.CHILD(parent_id=place["parent_id"], slug=place["slug"]), {"_id": 1})
    if found and found["_id"] != current["_id"]:
        raise SlugTaken(f"{place['slug']!r} is taken there", slug=place["slug"])


def _count_steps(visible_nodes: VisibleNodes, old_parent_id: str | None, above: Node | None) -> list[Step]:
    steps = []
    if old_parent_id is not None:
        steps.append(rules.children_step(visible_nodes.current(old_parent_id), -1))
    if above is not None:
        steps.append(rules.children_step(above, 1))
    return steps


def once_at(db: Db, visible_nodes: VisibleNodes, path: str) -> Node:
    """What was at the path before it, or a folder above it, was moved.

    Every version says where its node was, so nothing but the history is asked, and only where a part is missing.

    Raises: `UnknownNode`, `Invalid`.
    """
    parent_id: str | None = None
    for part in parts_of(path):
        try:
            node = visible_nodes.child(parent_id, part)
        except UnknownNode:
            node = _once_child(db, visible_nodes, parent_id, part)
        parent_id = node["_id"]
    return node


def _once_child(db: Db, visible_nodes: VisibleNodes, parent_id: str | None, slug: str) -> Node:
    """The node that was there last."""
    found = list(queries.ONCE_AT.find(db, parent_id=parent_id, slug=slug, limit=1, projection={"node_id": 1}))
    if not found:
        raise UnknownNode(f"there is no {slug!r} here", slug=slug)
    return visible_nodes.current(found[0]["node_id"])
