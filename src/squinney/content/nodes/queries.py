"""All queries on nodes and their versions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from squinney.content.nodes.documents import NODES, REVISIONS, Node
from squinney.mongo.queries import Query, declared
from squinney.mongo.schema import Document

_SOME_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def filter_of(node: Node) -> Document:
    """Return the filter that finds the node on one shard."""
    return {"_id": node["_id"], **route(node["metadata"])}


def route(metadata: Mapping[str, Any]) -> Document:
    """Return the shard-key fields of a node."""
    return {"metadata.parent_id": metadata["parent_id"], "metadata.slug": metadata["slug"]}


NODE = Query(
    "content.node",
    NODES,
    where=lambda node_id: {"_id": node_id},
    example={"node_id": "n"},
    routing="broadcast",
    reason="only the id is known, and nodes are sharded by parent and slug",
)
NODES_BY_ID = Query(
    "content.nodes-by-id",
    NODES,
    where=lambda node_ids: {"_id": {"$in": node_ids}},
    example={"node_ids": ["a", "b"]},
    routing="broadcast",
    reason="inherited access is looked up by the parents' ids",
)
CHILD = Query(
    "content.child",
    NODES,
    where=lambda parent_id, slug: {"metadata.parent_id": parent_id, "metadata.slug": slug},
    example={"parent_id": "p", "slug": "s"},
)
CHILDREN = Query(
    "content.children",
    NODES,
    where=lambda parent_id: {"metadata.parent_id": parent_id},
    example={"parent_id": "p"},
    sort=[("metadata.slug", 1)],
)
NOT_KEPT = Query(
    "content.not-kept",
    NODES,
    where=lambda folder_id: {
        "$or": [{"_id": folder_id}, {"metadata.parent_id": folder_id}],
        "metadata.kept_for": None,
    },
    example={"folder_id": "p"},
    routing="broadcast",
    reason="the folder is sharded by its own parent",
)
FOLDERS = Query(
    "content.folders",
    NODES,
    where=lambda parent_ids: {"metadata.parent_id": {"$in": parent_ids}, "metadata.num_children": {"$gt": 0}},
    example={"parent_ids": ["a", "b"]},
    routing="few",
    reason="a move measures the depth of the tree below the node: those of the parents given",
)
RECENT = Query(
    "content.recent",
    NODES,
    where=lambda parent_id, now: {"metadata.parent_id": parent_id, "metadata.published": {"$lte": now}},
    example={"parent_id": "p", "now": _SOME_TIME},
    sort=[("metadata.published", -1), ("_id", -1)],
)
TAGGED = Query(
    "content.tagged",
    NODES,
    where=lambda tag, now: {"metadata.tags": tag, "metadata.published": {"$lte": now}},
    example={"tag": "t", "now": _SOME_TIME},
    sort=[("metadata.published", -1), ("_id", -1)],
    routing="broadcast",
    reason="a tag may be on nodes of any parent",
)
UNPUBLISHED = Query(
    "content.unpublished",
    NODES,
    where=lambda parent_id, now: {
        "metadata.parent_id": parent_id,
        "metadata.published": {"$not": {"$lte": now}},  # with an `$or`, the server may sort in memory
    },
    example={"parent_id": "p", "now": _SOME_TIME},
    sort=[("metadata.published", -1), ("_id", -1)],
)
SHOWN_FILE = Query(
    "content.shown-file",
    NODES,
    where=lambda file_id: {"metadata.detail.file_id": file_id},
    example={"file_id": "f"},
    routing="broadcast",
    reason="the job checks whether any node still shows the file",
)


REVISION = Query(
    "content.revision",
    REVISIONS,
    where=lambda node_id, nonce: {"node_id": node_id, "nonce": nonce},
    example={"node_id": "n", "nonce": "x"},
)
HISTORY = Query(
    "content.history",
    REVISIONS,
    where=lambda node_id: {"node_id": node_id},
    example={"node_id": "n"},
    sort=[("version", -1)],
)
SAVED_SINCE = Query(
    "content.saved-since",
    REVISIONS,
    where=lambda node_id, version: {"node_id": node_id, "version": {"$gt": version}},
    example={"node_id": "n", "version": 1},
    sort=[("version", -1)],
)
FORMERLY_AT = Query(
    "content.formerly-at",
    REVISIONS,
    where=lambda parent_id, slug: {"metadata.parent_id": parent_id, "metadata.slug": slug},
    example={"parent_id": "p", "slug": "s"},
    sort=[("at", -1)],
    routing="broadcast",
    reason="an old link has only a path, and versions are sharded by node; runs only if no node has that path now",
)


def person_query(name: str, collection: str, field: str) -> Query:
    """Return a query for documents with this person in `field`.

    The query also finds documents that are not committed yet, because it serves to erase the person's name.
    """
    return Query(
        name,
        collection,
        where=lambda author_id: {field: author_id},
        example={"author_id": "a"},
        routing="broadcast",
        reason="a person's documents are on every shard",
    )


WRITTEN_BY = person_query("content.written-by", NODES, "metadata.author._id")
VERSIONS_WRITTEN_BY = person_query("content.versions-written-by", REVISIONS, "metadata.author._id")
SAVED_BY = person_query("content.saved-by", REVISIONS, "author._id")

QUERIES = declared(globals())
