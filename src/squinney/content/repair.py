"""Checks and repairs of stored content. Nodes, comments and files are the truth; counts are derived from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import cast

from pymongo.errors import DuplicateKeyError

from squinney.content import problem_queries
from squinney.content.comments.documents import COMMENTS, PAGES
from squinney.content.files import rules as file_rules
from squinney.content.files.documents import REMOVALS
from squinney.content.nodes import queries
from squinney.content.nodes import rules as node_rules
from squinney.content.nodes.documents import NODES, REVISIONS, WITHOUT_COMMENTS, Node
from squinney.content.sweep import sweep_uploads
from squinney.mongo.connect import server_now
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Check, Problem, problems, repair_problems
from squinney.mongo.schema import Db, Document
from squinney.transactions import UNLOCKED, Transactions, find_stuck


def find_problems(db: Db) -> Iterator[Problem]:
    """Yield everything that breaks an invariant; each check reads one snapshot, so unfinished work is not reported.

    Raises: `SnapshotTooOld`, `Unavailable`.
    """
    db = pinned(db)
    yield from find_stuck(db)
    yield from problems(db, CHECKS)


def repair(db: Db) -> Counter[str]:
    """Recover unfinished transactions, correct counts, write missing revisions, and delete unreachable files.

    Atomic: each document separately, and only if it has not changed since it was found.
    After a crash: call it again.
    """
    db = pinned(db)
    return +(Transactions(db).recover() + repair_problems(db, CHECKS) + sweep_uploads(db))


def _set_count(name: str, field: str, db: Db, found: Document) -> int:
    where = {"_id": found["_id"], field: found["stored"], **UNLOCKED}
    return db[name].update_one(where, {"$set": {field: found["found"]}}).modified_count


def _write_revision(db: Db, found: Document) -> int:
    node = db[NODES].find_one(queries.NODE(node_id=found["_id"]), WITHOUT_COMMENTS)
    if node is None or node["metadata"]["nonce"] != found["nonce"]:
        return 0
    step = node_rules.revision_step(cast(Node, node), node["metadata"]["author"], node["metadata"]["updated"])
    try:
        db[REVISIONS].insert_one({"_id": step.id, **(step.insert or {})})
    except DuplicateKeyError:
        return 0
    return 1


def _remove_comments(name: str, db: Db, found: Document) -> int:
    of_discussion = {"node_id": found["_id"]["node_id"], "epoch": found["_id"]["epoch"]}
    return db[name].delete_many(of_discussion).deleted_count


def _schedule_removal(db: Db, found: Document) -> int:
    """Schedule the removal of a file an hour later, not at once, so that open readers finish."""
    step = file_rules.old_file_step(found["_id"], server_now(db))
    db[REMOVALS].insert_one({"_id": step.id, **(step.insert or {})})
    return 1


_set_children = partial(_set_count, NODES, "metadata.num_children")
_set_comments = partial(_set_count, NODES, "metadata.num_comments")
_WRONG_COMMENTS = "node {_id} counts {stored} comments, but has {found}"

CHECKS = [
    Check(
        "wrong-child-count",
        problem_queries.WRONG_CHILDREN,
        "node {_id} counts {stored} children, but has {found}",
        _set_children,
    ),
    Check("missing-parent", problem_queries.WITHOUT_PARENT, "node {_id} has the parent {missing}, which is missing"),
    Check(
        "missing-revision",
        problem_queries.WITHOUT_REVISION,
        "node {_id} has no revision for its current nonce {nonce}",
        _write_revision,
    ),
    Check("missing-file", problem_queries.WITHOUT_FILE, "node {_id} shows the file {missing}, which is missing"),
    Check(
        "orphan-file",
        problem_queries.ORPHAN_FILES,
        "file {_id} is shown by no node, and its removal is not scheduled",
        _schedule_removal,
    ),
    Check(
        "orphan-chunks",
        problem_queries.ORPHAN_CHUNKS,
        "chunks of {_id} have no file, and their removal is not scheduled",
        _schedule_removal,
    ),
    Check("wrong-comment-count", problem_queries.WRONG_SEPARATE_COUNT, _WRONG_COMMENTS, _set_comments),
    Check("wrong-comment-count", problem_queries.WRONG_EMBEDDED_COUNT, _WRONG_COMMENTS, _set_comments),
    Check("wrong-comment-count", problem_queries.WRONG_PAGED_COUNT, _WRONG_COMMENTS, _set_comments),
    Check(
        "wrong-page-count",
        problem_queries.WRONG_PAGE_COUNT,
        "page {_id} counts {stored} comments, but has {found}",
        partial(_set_count, PAGES, "count"),
    ),
    Check(
        "leftover-comments",
        problem_queries.LEFTOVER_COMMENTS,
        "comments of {_id[node_id]} with epoch {_id[epoch]} belong to no discussion",
        partial(_remove_comments, COMMENTS),
    ),
    Check(
        "leftover-comments",
        problem_queries.LEFTOVER_PAGES,
        "comment pages of {_id[node_id]} with epoch {_id[epoch]} belong to no discussion",
        partial(_remove_comments, PAGES),
    ),
]
