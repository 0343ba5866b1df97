"""The pipelines that find broken invariants. Each reads a whole collection, so only `find_problems` uses them."""

from __future__ import annotations

from typing import Any

from squinney.content.comments.documents import COMMENTS, PAGES
from squinney.content.files.documents import CHUNKS, FILES, REMOVALS, UPLOADS
from squinney.content.nodes.documents import NODES, REVISIONS
from squinney.mongo.queries import Pipeline, problem_query
from squinney.mongo.schema import Document
from squinney.transactions import UNLOCKED, visible


def _audit(name: str, collection: str, stages: list[Document]) -> Pipeline:
    return problem_query(f"content.{name}", collection, lambda: stages)


def _lookup(from_: str, let: Document, match: Document, then: list[Document] | None = None) -> Document:
    pipeline: list[Any] = [
        {"$match": {"$expr": match, "txn_stub": None}},
        *(then or [{"$limit": 1}, {"$project": {"_id": 1}}]),
    ]
    return {"$lookup": {"from": from_, "let": let, "pipeline": pipeline, "as": "found"}}


COUNT: list[Document] = [{"$group": {"_id": None, "n": {"$sum": 1}}}]
COUNTED: Document = {"$ifNull": [{"$first": "$found.n"}, 0]}

WRONG_CHILDREN = _audit(
    "wrong-children",
    NODES,
    [
        {"$match": UNLOCKED},
        {"$project": {"stored": "$metadata.num_children"}},
        _lookup(NODES, {"id": "$_id"}, {"$eq": ["$metadata.parent_id", "$$id"]}, COUNT),
        {"$set": {"found": COUNTED}},
        {"$match": {"$expr": {"$ne": ["$stored", "$found"]}}},
    ],
)
WITHOUT_REVISION = _audit(
    "without-revision",
    NODES,
    [
        {"$match": UNLOCKED},
        {"$project": {"nonce": "$metadata.nonce"}},
        _lookup(
            REVISIONS,
            {"id": "$_id", "nonce": "$nonce"},
            {"$and": [{"$eq": ["$node_id", "$$id"]}, {"$eq": ["$nonce", "$$nonce"]}]},
        ),
        {"$match": {"found": []}},
    ],
)


def _dangling(field: str, collection: str) -> list[Document]:
    """Return stages that find nodes whose field refers to a missing document."""
    return [
        {"$match": visible({field: {"$ne": None}})},
        {"$project": {"missing": f"${field}"}},
        _lookup(collection, {"id": "$missing"}, {"$eq": ["$_id", "$$id"]}),
        {"$match": {"found": []}},
    ]


WITHOUT_PARENT = _audit("without-parent", NODES, _dangling("metadata.parent_id", NODES))
WITHOUT_FILE = _audit("without-file", NODES, _dangling("metadata.detail.file_id", FILES))


def _unclaimed(id_: Any) -> list[Document]:
    """Return stages that find files which no node shows, no upload is writing, and no removal is scheduled for."""
    claims: list[tuple[str, Document]] = [
        (NODES, {"$eq": ["$metadata.detail.file_id", "$$id"]}),
        (UPLOADS, {"$eq": ["$file_id", "$$id"]}),
        (REMOVALS, {"$and": [{"$eq": ["$kind", "file"]}, {"$eq": ["$target_id", "$$id"]}]}),
    ]
    original = {"$first": {"$split": [id_, "-web"]}}
    stages: list[Document] = [{"$set": {"original": original}}]
    for collection, match in claims:
        stages += [_lookup(collection, {"id": "$original"}, match), {"$match": {"found": []}}]
    return [*stages, {"$group": {"_id": "$original"}}]


ORPHAN_FILES = _audit("orphan-files", FILES, _unclaimed("$_id"))
ORPHAN_CHUNKS = _audit(
    "orphan-chunks",
    CHUNKS,
    [
        {"$group": {"_id": "$files_id"}},
        _lookup(FILES, {"id": "$_id"}, {"$eq": ["$_id", "$$id"]}),
        {"$match": {"found": []}},
        *_unclaimed("$_id"),
    ],
)


def _current_comments(collection: str, then: list[Document]) -> Document:
    same = {"$and": [{"$eq": ["$node_id", "$$id"]}, {"$eq": ["$epoch", "$$epoch"]}]}
    return _lookup(collection, {"id": "$_id", "epoch": "$epoch"}, same, then)


def _wrong_count(strategy: str, lookups: list[Document]) -> list[Document]:
    fields = {
        "stored": "$metadata.num_comments",
        "epoch": "$metadata.discussion.epoch",
        "comments": "$metadata.comments",
    }
    return [
        {"$match": {**UNLOCKED, "metadata.discussion.strategy": strategy, "metadata.discussion.frozen": None}},
        {"$project": fields},
        *lookups,
        {"$project": {"stored": 1, "found": 1}},
        {"$match": {"$expr": {"$ne": ["$stored", "$found"]}}},
    ]


_UNDELETED: Document = {"$eq": [{"$type": "$$this.deleted"}, "missing"]}
_COUNT_UNDELETED: Document = {"$size": {"$filter": {"input": {"$ifNull": ["$comments", []]}, "cond": _UNDELETED}}}

WRONG_SEPARATE_COUNT = _audit(
    "wrong-count-separate",
    NODES,
    _wrong_count(
        "separate",
        [
            _current_comments(COMMENTS, [{"$match": {"deleted": None}}, *COUNT]),
            {"$set": {"found": COUNTED}},
        ],
    ),
)
WRONG_EMBEDDED_COUNT = _audit(
    "wrong-count-embedded", NODES, _wrong_count("embedded", [{"$set": {"found": _COUNT_UNDELETED}}])
)
WRONG_PAGED_COUNT = _audit(
    "wrong-count-paged",
    NODES,
    _wrong_count(
        "paged",
        [
            _current_comments(PAGES, [{"$group": {"_id": None, "n": {"$sum": _COUNT_UNDELETED}}}]),
            {"$set": {"found": COUNTED}},
        ],
    ),
)
WRONG_PAGE_COUNT = _audit(
    "wrong-page-count",
    PAGES,
    [
        {"$match": UNLOCKED},
        {"$project": {"stored": "$count", "found": {"$size": {"$ifNull": ["$comments", []]}}}},
        {"$match": {"$expr": {"$ne": ["$stored", "$found"]}}},
    ],
)


def _leftovers(kind: str) -> list[Document]:
    """Return stages that find comments of an epoch that is not their node's, without a scheduled removal."""
    node = {"$and": [{"$eq": ["$_id", "$$id"]}, {"$eq": ["$metadata.discussion.epoch", "$$epoch"]}]}
    removal = {"$and": [{"$in": ["$kind", [kind, "node"]]}, {"$eq": ["$target_id", "$$id"]}]}
    by = {"id": "$_id.node_id", "epoch": "$_id.epoch"}
    return [
        {"$match": {"txn_stub": None}},
        {"$group": {"_id": {"node_id": "$node_id", "epoch": "$epoch"}}},
        _lookup(NODES, by, node),
        {"$match": {"found": []}},
        _lookup(REMOVALS, by, removal),
        {"$match": {"found": []}},
    ]


LEFTOVER_COMMENTS = _audit("leftover-comments", COMMENTS, _leftovers("comments"))
LEFTOVER_PAGES = _audit("leftover-pages", PAGES, _leftovers("pages"))
