"""The transaction steps and update expressions that change nodes. Pure functions, without a database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from squinney.content.documents import Author
from squinney.content.errors import NotEmpty
from squinney.content.nodes import queries
from squinney.content.nodes.documents import NODES, REVISIONS, Node, Revision
from squinney.content.removals import old_file_step, removal_step
from squinney.errors import SlugTaken, SquinneyError
from squinney.mongo.schema import Document
from squinney.transactions import Stale, Step

# Counters and comments are not part of a version.
UNVERSIONED = ("num_children", "num_comments", "num_comment_pages", "comments", "discussion")


def create_steps(node: Node, parent: Node | None) -> list[Step]:
    """Set the node's parent; return the steps that insert it and its first revision, and count it in the parent."""
    node["metadata"]["parent_id"] = parent["_id"] if parent else None
    taken = slug_taken(node["metadata"]["slug"])
    return [
        *([children_step(parent, 1)] if parent else []),
        Step(NODES, node["_id"], insert=node, route=queries.route(node["metadata"]), refused=lambda _: taken),
        revision_step(node, node["metadata"]["author"], node["metadata"]["created"]),
    ]


def slug_taken(slug: str) -> SlugTaken:
    """Return the error for a slug that a sibling already has."""
    return SlugTaken(f"the parent already has a child with the slug {slug!r}", slug=slug)


def children_step(parent: Node, change: int) -> Step:
    """Return the step that adds `change` to the parent's count of children, if the parent was not moved or removed."""
    return Step(
        NODES,
        parent["_id"],
        route=queries.route(parent["metadata"]),
        update={"$inc": {"metadata.num_children": change}},
        refused=lambda _: Stale("the parent was moved or removed"),
    )


def revision_step(node: Node, by: Author, at: datetime, *, session: str | None = None) -> Step:
    """Return the step that inserts the revision for the node's current version."""
    metadata = node["metadata"]
    revision: Revision = {
        "_id": f"{node['_id']}:{metadata['nonce']}",
        "node_id": node["_id"],
        "nonce": metadata["nonce"],
        "version": metadata["version"],
        "at": at,
        "author": by,
        "session": session,
        "metadata": {name: value for name, value in metadata.items() if name not in UNVERSIONED},
    }
    return Step(REVISIONS, revision["_id"], insert=revision, route={"node_id": node["_id"], "nonce": metadata["nonce"]})


def changed_node(node: Node, changes: Mapping[str, Any], at: datetime, nonce: str) -> Node:
    """Return the node with the changes applied, the next version number and the new nonce."""
    metadata: dict[str, Any] = dict(node["metadata"])
    detail = {**metadata["detail"], **changes.get("detail", {})}
    metadata.update({name: value for name, value in changes.items() if name != "detail"})
    metadata.update(detail=detail, nonce=nonce, version=metadata["version"] + 1, updated=at)
    return {"_id": node["_id"], "metadata": metadata}  # type: ignore[typeddict-item]


def edit_step(before: Node, after: Node) -> Step:
    """Return the step that replaces one version of a node by the next, if the nonce still matches."""
    new, old = after["metadata"], before["metadata"]
    fields = ("nonce", "version", "updated", "title", "detail")
    return Step(
        NODES,
        before["_id"],
        route=queries.route(old),
        # guard: an edit requires the nonce of the version it was based on
        guard={"metadata.nonce": old["nonce"]},
        update={"$set": {f"metadata.{name}": new[name] for name in fields}},  # type: ignore[literal-required]
        refused=lambda _: Stale("the node has changed"),
    )


def move_step(before: Node, after: Node) -> Step:
    """Return the step that moves a node to its new parent and slug; the unique index refuses a taken slug."""
    fields = ("parent_id", "slug", "nonce", "version", "updated")
    new, old = after["metadata"], before["metadata"]

    def error_for(current: Document | None) -> SquinneyError:
        if current and current["metadata"]["nonce"] == old["nonce"]:
            return slug_taken(new["slug"])
        return Stale("the node has changed")

    return Step(
        NODES,
        before["_id"],
        # guard: a move requires the nonce of the version it was based on
        guard={"metadata.nonce": old["nonce"], **queries.route(old)},
        update={"$set": {f"metadata.{name}": new[name] for name in fields}},  # type: ignore[literal-required]
        refused=error_for,
    )


def unmoved_steps(folders: Sequence[Node], *, without: Iterable[str]) -> list[Step]:
    """Return steps which require that no folder was moved, so that two concurrent moves cannot create a cycle.

    Folders whose id is in `without` already have a step.
    """
    excluded = set(without)
    return [
        Step(
            NODES,
            node["_id"],
            # guard: folders above the new parent are not moved during a move
            guard=queries.route(node["metadata"]),
            refused=lambda _: Stale("a folder was moved in the meantime"),
        )
        for node in folders
        if node["_id"] not in excluded
    ]


def remove_steps(node: Node, parent: Node | None, now: datetime) -> list[Step]:
    """Return the steps that delete a node and schedule its history, comments and files for removal."""

    def error_for(current: Document | None) -> SquinneyError:
        if current is None:  # not at its old path; it may be at another
            return Stale("the node was moved or removed")
        if current["metadata"]["num_children"]:
            return NotEmpty(
                "the node has children: remove or move them first", children=current["metadata"]["num_children"]
            )
        return Stale("the node has changed")

    guard = {
        # guard: a node with children is not removed
        "metadata.num_children": 0,
        "metadata.nonce": node["metadata"]["nonce"],
        # guard: a node is not removed while its discussion is frozen
        "metadata.discussion.frozen": None,
    }
    steps = [
        Step(NODES, node["_id"], route=queries.route(node["metadata"]), guard=guard, delete=True, refused=error_for),
        removal_step("node", node["_id"], now),
    ]
    if parent:
        steps.append(children_step(parent, -1))
    if file_id := node["metadata"]["detail"].get("file_id"):
        steps.append(old_file_step(file_id, now))
    return steps


def changed_tags(add: list[str], remove: list[str]) -> Document:
    """Return an aggregation expression: the node's tags without `remove`, then the new ones of `add`."""
    kept = {"$filter": {"input": "$metadata.tags", "cond": {"$not": [{"$in": ["$$this", {"$literal": remove}]}]}}}
    new = {"$filter": {"input": {"$literal": add}, "cond": {"$not": [{"$in": ["$$this", kept]}]}}}
    return {"$concatArrays": [kept, new]}


def published_since(now: datetime) -> Document:
    """Return an aggregation expression: the node's time of publication if that is in the past, else `now`."""
    is_published = {"$and": [{"$gt": ["$metadata.published", None]}, {"$lte": ["$metadata.published", now]}]}
    return {"$cond": [is_published, "$metadata.published", now]}
