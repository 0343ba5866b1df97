"""Every query of content, named once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from squinney.content.documents import (
    CHUNKS,
    COMMENTS,
    FILES,
    FLAGS,
    NODES,
    PAGES,
    REMOVALS,
    REVISIONS,
    UPLOADS,
)
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Document
from squinney.transactions import visible

_THEN = datetime(2026, 1, 1, tzinfo=UTC)

# ---- nodes ----

NODE = Query(
    "content.node",
    NODES,
    where=lambda node_id: visible({"_id": node_id}),
    example={"node_id": "n"},
    routing="broadcast",
    reason="only the id is known: the nodes are spread by parent and slug",
)
NODES_BY_ID = Query(
    "content.nodes-by-id",
    NODES,
    where=lambda node_ids: visible({"_id": {"$in": node_ids}}),
    example={"node_ids": ["a", "b"]},
    routing="broadcast",
    reason="inherited access is looked up by the parents' ids",
)
CHILD = Query(
    "content.child",
    NODES,
    where=lambda parent_id, slug: visible({"metadata.parent_id": parent_id, "metadata.slug": slug}),
    example={"parent_id": "p", "slug": "s"},
)
CHILDREN = Query(
    "content.children",
    NODES,
    where=lambda parent_id: visible({"metadata.parent_id": parent_id}),
    example={"parent_id": "p"},
    sort=[("metadata.slug", 1)],
)
FOLDERS = Query(
    "content.folders",
    NODES,
    where=lambda parent_ids: visible({"metadata.parent_id": {"$in": parent_ids}, "metadata.num_children": {"$gt": 0}}),
    example={"parent_ids": ["a", "b"]},
    routing="broadcast",
    reason="a move asks how deep the tree below the node is: folders of many parents",
)
RECENT = Query(
    "content.recent",
    NODES,
    where=lambda parent_id, now: visible({"metadata.parent_id": parent_id, "metadata.published": {"$lte": now}}),
    example={"parent_id": "p", "now": _THEN},
    sort=[("metadata.published", -1), ("_id", -1)],
)
TAGGED = Query(
    "content.tagged",
    NODES,
    where=lambda tag, now: visible({"metadata.tags": tag, "metadata.published": {"$lte": now}}),
    example={"tag": "t", "now": _THEN},
    sort=[("metadata.published", -1), ("_id", -1)],
    routing="broadcast",
    reason="a tag may be on nodes of any parent",
)
UNPUBLISHED = Query(
    "content.unpublished",
    NODES,
    where=lambda parent_id, now: visible(
        {
            "metadata.parent_id": parent_id,
            "$or": [{"metadata.published": None}, {"metadata.published": {"$gt": now}}],
        }
    ),
    example={"parent_id": "p", "now": _THEN},
    sort=[("metadata.published", -1), ("_id", -1)],
)
SHOWN_FILE = Query(
    "content.shown-file",
    NODES,
    where=lambda file_id: {"metadata.detail.file_id": file_id},
    example={"file_id": "f"},
    routing="broadcast",
    reason="the sweep asks whether any node still shows a file",
)

# ---- revisions ----

REVISION = Query(
    "content.revision",
    REVISIONS,
    where=lambda node_id, nonce: visible({"node_id": node_id, "nonce": nonce}),
    example={"node_id": "n", "nonce": "x"},
)
HISTORY = Query(
    "content.history",
    REVISIONS,
    where=lambda node_id: visible({"node_id": node_id}),
    example={"node_id": "n"},
    sort=[("version", -1)],
)
SAVED_SINCE = Query(
    "content.saved-since",
    REVISIONS,
    where=lambda node_id, version: visible({"node_id": node_id, "version": {"$gt": version}}),
    example={"node_id": "n", "version": 1},
    sort=[("version", -1)],
)
ONCE_AT = Query(
    "content.once-at",
    REVISIONS,
    where=lambda parent_id, slug: visible({"metadata.parent_id": parent_id, "metadata.slug": slug}),
    example={"parent_id": "p", "slug": "s"},
    sort=[("at", -1)],
    routing="broadcast",
    reason="an old link names a place, and the versions are spread by node; asked only where nothing is there now",
)

# ---- uploads and what is to be deleted ----

STALLED = Query(
    "content.stalled-uploads",
    UPLOADS,
    where=lambda before: {"seen": {"$lt": before}},
    example={"before": _THEN},
    routing="broadcast",
    reason="the sweep looks on every shard",
)
UPLOAD_OF = Query(
    "content.upload",
    UPLOADS,
    where=lambda upload_id: visible({"_id": upload_id}),
    example={"upload_id": "u"},
)
DUE_REMOVALS = Query(
    "content.due-removals",
    REMOVALS,
    where=lambda now: visible({"due_at": {"$lte": now}}),
    example={"now": _THEN},
    sort=[("due_at", 1)],
    routing="broadcast",
    reason="the sweep looks on every shard",
)
FILE = Query("content.file", FILES, where=lambda file_id: {"_id": file_id}, example={"file_id": "f"})
CHUNKS_OF = Query("content.chunks", CHUNKS, where=lambda file_id: {"files_id": file_id}, example={"file_id": "f"})

# ---- comments: separate ----

COMMENT = Query(
    "comments.comment",
    COMMENTS,
    where=lambda node_id, epoch, slug: visible({"node_id": node_id, "slug": slug, "epoch": epoch}),
    example={"node_id": "n", "epoch": 1, "slug": "s"},
)
CHRONOLOGICAL = Query(
    "comments.chronological",
    COMMENTS,
    where=lambda node_id, epoch: visible({"node_id": node_id, "epoch": epoch}),
    example={"node_id": "n", "epoch": 1},
    sort=[("posted", 1), ("_id", 1)],
)
THREADED = Query(
    "comments.threaded",
    COMMENTS,
    where=lambda node_id, epoch: visible({"node_id": node_id, "epoch": epoch}),
    example={"node_id": "n", "epoch": 1},
    sort=[("full_slug", 1)],
)
CHRONOLOGICAL_FROM = Query(
    "comments.chronological-from",
    COMMENTS,
    # An `_id` begins with the very time that `posted` is cut from, so one bound on each is one place in the index.
    where=lambda node_id, epoch, posted, comment_id, inclusive=False: visible(
        {
            "node_id": node_id,
            "epoch": epoch,
            "posted": {"$gte": posted},
            "_id": {"$gte" if inclusive else "$gt": comment_id},
        }
    ),
    example={"node_id": "n", "epoch": 1, "posted": _THEN, "comment_id": "2026.01.01.00.00.00.000000:aaaa"},
    sort=[("posted", 1), ("_id", 1)],
)
THREADED_FROM = Query(
    "comments.threaded-from",
    COMMENTS,
    where=lambda node_id, epoch, full_slug, inclusive=False: visible(
        {"node_id": node_id, "epoch": epoch, "full_slug": {"$gte" if inclusive else "$gt": full_slug}}
    ),
    example={"node_id": "n", "epoch": 1, "full_slug": "2026.01.01.00.00.00.000000:aaaa"},
    sort=[("full_slug", 1)],
)


def below(full_slug: str) -> Document:
    """The comment and all below it. `0` is the character behind `/`, so no sibling with a longer slug is met."""
    return {"$or": [{"full_slug": full_slug}, {"full_slug": {"$gt": f"{full_slug}/", "$lt": f"{full_slug}0"}}]}


DISCUSSION = Query(
    "comments.discussion",
    COMMENTS,
    where=lambda node_id, epoch, full_slug: visible({"node_id": node_id, "epoch": epoch, **below(full_slug)}),
    example={"node_id": "n", "epoch": 1, "full_slug": "2026.01.01.00.00.00.000000:aaaa"},
    sort=[("full_slug", 1)],
)
BY_AUTHOR = Query(
    "comments.by-author",
    COMMENTS,
    where=lambda author_id: visible({"author._id": author_id}),
    example={"author_id": "a"},
    sort=[("posted", -1), ("_id", -1)],
    routing="broadcast",
    reason="a person comments on nodes of every shard",
)

# ---- comments: embedded ----


def _embedded_page(
    node: Document, sort: str, behind: str | None, limit: int, from_: str | None = None
) -> list[Document]:
    """Some of a node's comments, cut out on the server."""
    items: Any = {"$sortArray": {"input": {"$ifNull": ["$metadata.comments", []]}, "sortBy": {sort: 1}}}
    operator, bound = ("$gt", behind) if from_ is None else ("$gte", from_)
    if bound is not None:
        items = {"$filter": {"input": items, "as": "c", "cond": {operator: [f"$$c.{sort}", {"$literal": bound}]}}}
    return [
        {"$match": visible(node)},
        {"$project": {"items": {"$slice": [items, limit]}}},
    ]


EMBEDDED_PAGE = Pipeline(
    "comments.embedded-page",
    NODES,
    stages=_embedded_page,
    example={
        "node": {"_id": "n", "metadata.parent_id": "p", "metadata.slug": "s"},
        "sort": "_id",
        "behind": None,
        "limit": 51,
    },
)
EMBEDDED_BY = Query(
    "comments.embedded-by",
    NODES,
    where=lambda author_id: visible({"metadata.comments.author._id": author_id}),
    example={"author_id": "a"},
    routing="broadcast",
    reason="a person comments on nodes of every shard",
)

# ---- comments: paged ----

PAGE_OF = Query(
    "comments.page-of",
    PAGES,
    where=lambda node_id, epoch, slug: visible({"node_id": node_id, "comments.slug": slug, "epoch": epoch}),
    example={"node_id": "n", "epoch": 1, "slug": "s"},
)
PAGES_FROM = Query(
    "comments.pages-from",
    PAGES,
    where=lambda node_id, epoch, number: visible({"node_id": node_id, "page": {"$gte": number}, "epoch": epoch}),
    example={"node_id": "n", "epoch": 1, "number": 1},
    sort=[("page", 1)],
)
PAGED_BY = Query(
    "comments.paged-by",
    PAGES,
    where=lambda author_id: visible({"comments.author._id": author_id}),
    example={"author_id": "a"},
    routing="broadcast",
    reason="a person comments on nodes of every shard",
)

# ---- moderation ----

QUEUE = Query(
    "comments.queue",
    FLAGS,
    where=lambda: visible({"state": "open"}),
    sort=[("first_at", 1), ("_id", 1)],
    routing="broadcast",
    reason="moderators see the flags of every shard in one list",
)
FLAGGED_BY = Query(
    "comments.flagged-by",
    FLAGS,
    where=lambda author_id: {"by": author_id},
    example={"author_id": "a"},
    routing="broadcast",
    reason="a person flags comments of every shard",
)

DECIDED_BY = Query(
    "comments.decided-by",
    FLAGS,
    where=lambda author_id: {"decided_by": author_id},
    example={"author_id": "a"},
    routing="broadcast",
    reason="a moderator judges comments of every shard",
)

# ---- names, to erase them ----

WRITTEN_BY = Query(
    "content.written-by",
    NODES,
    where=lambda author_id: {"metadata.author._id": author_id},
    example={"author_id": "a"},
    routing="broadcast",
    reason="a person writes nodes of every shard",
)
VERSIONS_WRITTEN_BY = Query(
    "content.versions-written-by",
    REVISIONS,
    where=lambda author_id: {"metadata.author._id": author_id},
    example={"author_id": "a"},
    routing="broadcast",
    reason="a person writes nodes of every shard",
)
SAVED_BY = Query(
    "content.saved-by",
    REVISIONS,
    where=lambda author_id: {"author._id": author_id},
    example={"author_id": "a"},
    routing="broadcast",
    reason="a person saves versions of nodes of every shard",
)

QUERIES: list[Query | Pipeline] = [
    NODE,
    NODES_BY_ID,
    CHILD,
    CHILDREN,
    FOLDERS,
    RECENT,
    TAGGED,
    UNPUBLISHED,
    SHOWN_FILE,
    REVISION,
    HISTORY,
    SAVED_SINCE,
    ONCE_AT,
    STALLED,
    UPLOAD_OF,
    DUE_REMOVALS,
    FILE,
    CHUNKS_OF,
    COMMENT,
    CHRONOLOGICAL,
    THREADED,
    CHRONOLOGICAL_FROM,
    THREADED_FROM,
    DISCUSSION,
    BY_AUTHOR,
    EMBEDDED_PAGE,
    EMBEDDED_BY,
    PAGE_OF,
    PAGES_FROM,
    PAGED_BY,
    QUEUE,
    FLAGGED_BY,
    DECIDED_BY,
    WRITTEN_BY,
    VERSIONS_WRITTEN_BY,
    SAVED_BY,
]
