"""Checks and repairs of stored content. Nodes, comments and files are the truth; counts are derived from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import cast

from pymongo.errors import DuplicateKeyError

from squinney.content import removals
from squinney.content.comments.documents import COMMENTS, PAGES, SUBJECTS
from squinney.content.documents import Strategy
from squinney.content.files.documents import CHUNKS, FILES, UPLOADS
from squinney.content.leftovers import give_up_uploads
from squinney.content.nodes import queries
from squinney.content.nodes.documents import NODES, REVISIONS, WITHOUT_COMMENTS, Node
from squinney.content.nodes.steps import revision_step
from squinney.content.removals import REMOVALS
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Check, Problem, problems, repair_problems
from squinney.mongo.queries import problem_query
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import server_now


def find_problems(db: Db) -> Iterator[Problem]:
    """Yield everything that breaks an invariant; each check reads one snapshot, so unfinished work is not reported.

    Raises: `SnapshotTooOld`, `Unavailable`.
    """
    db = pinned(db)
    yield from problems(db, CHECKS)


@operation(None)
def repair(db: Db) -> Counter[str]:
    """Correct counts, write missing revisions, and delete unreachable files.

    Atomic: each document separately, and only if it has not changed since it was found.
    After a crash: call it again.
    """
    db = pinned(db)
    return +(repair_problems(db, CHECKS) + give_up_uploads(db))


# ---- repairs ----


def _set_count(name: str, field: str, db: Db, finding: Document) -> int:
    # guard: repair sets a count only if it has not changed since it was read
    where = {"_id": finding["_id"], field: finding["stored"]}
    return db[name].update_one(where, {"$set": {field: finding["found"]}}).modified_count


def _write_revision(db: Db, finding: Document) -> int:
    node = queries.NODE.find_one(db, node_id=finding["_id"], projection=WITHOUT_COMMENTS)
    if node is None or node["metadata"]["nonce"] != finding["nonce"]:
        return 0
    step = revision_step(cast(Node, node), node["metadata"]["author"], node["metadata"]["updated"])
    try:
        db[REVISIONS].insert_one(dict(step.insert or {}))
    except DuplicateKeyError:
        return 0
    return 1


def _remove_comments(name: str, db: Db, finding: Document) -> int:
    of_discussion = {"node_id": finding["_id"]["node_id"], "epoch": finding["_id"]["epoch"]}
    return db[name].delete_many(of_discussion).deleted_count


def _schedule_removal(db: Db, finding: Document) -> int:
    """Schedule the removal of a file an hour later, not at once, so that open readers finish."""
    step = removals.old_file_step(finding["_id"], server_now(db))
    db[REMOVALS].insert_one({"_id": step.id, **(step.insert or {})})
    return 1


# ---- checks: their pipelines read whole collections ----


def _lookup(
    collection: str, equal: Mapping[str, str], then: list[Document] | None = None, where: Document | None = None
) -> Document:
    """Return the stage that joins documents whose fields equal expressions; by default one of them, only its id."""
    let = {f"value{number}": value for number, value in enumerate(equal.values())}
    both = [{"$eq": [f"${field}", f"$$value{number}"]} for number, field in enumerate(equal)]
    pipeline: list[Document] = [
        {"$match": {"$expr": {"$and": both}, **(where or {})}},
        *(then or [{"$limit": 1}, {"$project": {"_id": 1}}]),
    ]
    return {"$lookup": {"from": collection, "let": let, "pipeline": pipeline, "as": "found"}}


def _absent(collection: str, equal: Mapping[str, str], where: Document | None = None) -> list[Document]:
    """Return stages that keep documents for which the collection has no document with equal fields."""
    return [_lookup(collection, equal, where=where), {"$match": {"found": []}}]


COUNT: list[Document] = [{"$group": {"_id": None, "n": {"$sum": 1}}}]
COUNTED: Document = {"$set": {"found": {"$ifNull": [{"$first": "$found.n"}, 0]}}}
DIFFERENT: Document = {"$match": {"$expr": {"$ne": ["$stored", "$found"]}}}
UNDELETED: Document = {"$eq": [{"$type": "$$this.deleted"}, "missing"]}
COUNT_UNDELETED: Document = {"$size": {"$filter": {"input": {"$ifNull": ["$comments", []]}, "cond": UNDELETED}}}


def _check(
    code: str,
    collection: str,
    stages: list[Document],
    message: str,
    repair: Callable[[Db, Document], int] | None = None,
) -> Check:
    return Check(code, problem_query(f"content.{code}", collection, lambda: stages), message, repair)


def _dangling(code: str, what: str, field: str, collection: str) -> Check:
    """Return the check for nodes whose field refers to a missing document."""
    stages: list[Document] = [
        {"$match": {field: {"$ne": None}}},
        {"$project": {"missing": f"${field}"}},
        *_absent(collection, {"_id": "$missing"}),
    ]
    return _check(code, NODES, stages, f"node {{_id}} {what} {{missing}}, which is missing")


def _unclaimed() -> list[Document]:
    """Return stages that keep files which no node shows, no upload is writing, and no removal is scheduled for."""
    return [
        {"$set": {"original": {"$first": {"$split": ["$_id", "-web"]}}}},
        *_absent(NODES, {"metadata.detail.file_id": "$original"}),
        *_absent(UPLOADS, {"file_id": "$original"}),
        *_absent(REMOVALS, {"target_id": "$original"}, {"kind": "file"}),
        {"$group": {"_id": "$original"}},
    ]


def _wrong_comments(collection: str, strategy: Strategy, *counting: Document) -> Check:
    fields = {
        "stored": "$metadata.num_comments",
        "epoch": "$metadata.discussion.epoch",
        "comments": "$metadata.comments",
    }
    stages: list[Document] = [
        {"$match": {"metadata.discussion.strategy": strategy, "metadata.discussion.frozen": None}},
        {"$project": fields},
        *counting,
        {"$project": {"stored": 1, "found": 1}},
        DIFFERENT,
    ]
    message = "the subject {_id} counts {stored} comments, but has {found}"
    mend = partial(_set_count, collection, "metadata.num_comments")
    return _check("wrong-comment-count", collection, stages, message, mend)


def _leftovers(collection: str, kind: str, what: str) -> Check:
    """Return the check for comments of an epoch that is not their node's, without a scheduled removal."""
    stages: list[Document] = [
        {"$group": {"_id": {"node_id": "$node_id", "epoch": "$epoch"}}},
        *_absent(NODES, {"_id": "$_id.node_id", "metadata.discussion.epoch": "$_id.epoch"}),
        *_absent(SUBJECTS, {"_id": "$_id.node_id", "metadata.discussion.epoch": "$_id.epoch"}),
        *_absent(REMOVALS, {"target_id": "$_id.node_id"}, {"kind": {"$in": [kind, "node"]}}),
    ]
    message = f"{what} of {{_id[node_id]}} with epoch {{_id[epoch]}} belong to no discussion"
    return _check("leftover-comments", collection, stages, message, partial(_remove_comments, collection))


OF_DISCUSSION = {"node_id": "$_id", "epoch": "$epoch"}

FOUND: dict[Strategy, list[Document]] = {
    "separate": [_lookup(COMMENTS, OF_DISCUSSION, COUNT, {"deleted": None}), COUNTED],
    "embedded": [{"$set": {"found": COUNT_UNDELETED}}],
    "paged": [_lookup(PAGES, OF_DISCUSSION, [{"$group": {"_id": None, "n": {"$sum": COUNT_UNDELETED}}}]), COUNTED],
}

CHECKS = [
    _check(
        "wrong-child-count",
        NODES,
        [
            {"$project": {"stored": "$metadata.num_children"}},
            _lookup(NODES, {"metadata.parent_id": "$_id"}, COUNT),
            COUNTED,
            DIFFERENT,
        ],
        "node {_id} counts {stored} children, but has {found}",
        partial(_set_count, NODES, "metadata.num_children"),
    ),
    _dangling("missing-parent", "has the parent", "metadata.parent_id", NODES),
    _check(
        "missing-revision",
        NODES,
        [
            {"$project": {"nonce": "$metadata.nonce"}},
            *_absent(REVISIONS, {"node_id": "$_id", "nonce": "$nonce"}),
        ],
        "node {_id} has no revision for its current nonce {nonce}",
        _write_revision,
    ),
    _dangling("missing-file", "shows the file", "metadata.detail.file_id", FILES),
    _check(
        "orphan-file",
        FILES,
        _unclaimed(),
        "file {_id} is shown by no node, and its removal is not scheduled",
        _schedule_removal,
    ),
    _check(
        "orphan-chunks",
        CHUNKS,
        [{"$group": {"_id": "$files_id"}}, *_absent(FILES, {"_id": "$_id"}), *_unclaimed()],
        "chunks of {_id} have no file, and their removal is not scheduled",
        _schedule_removal,
    ),
    *(_wrong_comments(name, strategy, *counting) for name in (NODES, SUBJECTS) for strategy, counting in FOUND.items()),
    _check(
        "wrong-page-count",
        PAGES,
        [
            {"$project": {"stored": "$count", "found": {"$size": {"$ifNull": ["$comments", []]}}}},
            DIFFERENT,
        ],
        "page {_id} counts {stored} comments, but has {found}",
        partial(_set_count, PAGES, "count"),
    ),
    _leftovers(COMMENTS, "comments", "comments"),
    _leftovers(PAGES, "pages", "comment pages"),
]
