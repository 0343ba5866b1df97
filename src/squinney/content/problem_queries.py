"""The pipelines that look for broken invariants. Each reads a whole collection: for `find_problems` alone."""

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
        {"$project": {"said": "$metadata.num_children"}},
        _lookup(NODES, {"id": "$_id"}, {"$eq": ["$metadata.parent_id", "$$id"]}, COUNT),
        {"$set": {"found": COUNTED}},
        {"$match": {"$expr": {"$ne": ["$said", "$found"]}}},
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
    """Nodes whose field names a document that is not there."""
    return [
        {"$match": visible({field: {"$ne": None}})},
        {"$project": {"missing": f"${field}"}},
        _lookup(collection, {"id": "$missing"}, {"$eq": ["$_id", "$$id"]}),
        {"$match": {"found": []}},
    ]


WITHOUT_PARENT = _audit("without-parent", NODES, _dangling("metadata.parent_id", NODES))
WITHOUT_FILE = _audit("without-file", NODES, _dangling("metadata.detail.file_id", FILES))


def _unclaimed(id_: Any) -> list[Document]:
    """Of files: shown by no node, on their way in no upload, and noted for no removal."""
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


def _live(collection: str, then: list[Document]) -> Document:
    same = {"$and": [{"$eq": ["$node_id", "$$id"]}, {"$eq": ["$epoch", "$$epoch"]}]}
    return _lookup(collection, {"id": "$_id", "epoch": "$epoch"}, same, then)


def _wrong_count(strategy: str, lookups: list[Document]) -> list[Document]:
    fields = {"said": "$metadata.num_comments", "epoch": "$metadata.discussion.epoch", "comments": "$metadata.comments"}
    calm = {**UNLOCKED, "metadata.discussion.strategy": strategy, "metadata.discussion.frozen": None}
    return [
        {"$match": calm},
        {"$project": fields},
        *lookups,
        {"$project": {"said": 1, "found": 1}},
        {"$match": {"$expr": {"$ne": ["$said", "$found"]}}},
    ]


_ALIVE: Document = {"$eq": [{"$type": "$$this.deleted"}, "missing"]}
_NUMBER_ALIVE: Document = {"$size": {"$filter": {"input": {"$ifNull": ["$comments", []]}, "cond": _ALIVE}}}

WRONG_SEPARATE_COUNT = _audit(
    "wrong-count-separate",
    NODES,
    _wrong_count(
        "separate",
        [
            _live(COMMENTS, [{"$match": {"deleted": None}}, *COUNT]),
            {"$set": {"found": COUNTED}},
        ],
    ),
)
WRONG_EMBEDDED_COUNT = _audit(
    "wrong-count-embedded", NODES, _wrong_count("embedded", [{"$set": {"found": _NUMBER_ALIVE}}])
)
WRONG_PAGED_COUNT = _audit(
    "wrong-count-paged",
    NODES,
    _wrong_count(
        "paged",
        [
            _live(PAGES, [{"$group": {"_id": None, "n": {"$sum": _NUMBER_ALIVE}}}]),
            {"$set": {"found": COUNTED}},
        ],
    ),
)
WRONG_PAGE_COUNT = _audit(
    "wrong-page-count",
    PAGES,
    [
        {"$match": UNLOCKED},
        {"$project": {"said": "$count", "found": {"$size": {"$ifNull": ["$comments", []]}}}},
        {"$match": {"$expr": {"$ne": ["$said", "$found"]}}},
    ],
)


def _leftovers(kind: str) -> list[Document]:
    """Comments of another epoch than their node's, noted for no removal."""
    node = {"$and": [{"$eq": ["$_id", "$$id"]}, {"$eq": ["$metadata.discussion.epoch", "$$epoch"]}]}
    noted = {"$and": [{"$in": ["$kind", [kind, "node"]]}, {"$eq": ["$target_id", "$$id"]}]}
    by = {"id": "$_id.node_id", "epoch": "$_id.epoch"}
    return [
        {"$match": {"txn_stub": None}},
        {"$group": {"_id": {"node_id": "$node_id", "epoch": "$epoch"}}},
        _lookup(NODES, by, node),
        {"$match": {"found": []}},
        _lookup(REMOVALS, by, noted),
        {"$match": {"found": []}},
    ]


LEFTOVER_COMMENTS = _audit("leftover-comments", COMMENTS, _leftovers("comments"))
LEFTOVER_PAGES = _audit("leftover-pages", PAGES, _leftovers("pages"))
