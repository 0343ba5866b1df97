"""What can be wrong in content, found and mended. Nodes, comments and files are the record; counts follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import cast

from pymongo.errors import DuplicateKeyError

from squinney.content import audits, queries, rules
from squinney.content.documents import (
    COMMENTS,
    NODES,
    PAGES,
    REMOVALS,
    REVISIONS,
    WITHOUT_COMMENTS,
    Node,
)
from squinney.content.sweep import sweep_uploads
from squinney.mongo.connect import server_now
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem, mended, told
from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import Db, Document
from squinney.transactions import AT_REST, Transactions, find_stuck


@dataclass(frozen=True)
class Audit:
    """One kind of problem: how it is found, what is said of it, and whether `repair` mends it."""

    code: str
    pipeline: Pipeline
    message: str
    repairable: bool = True


AUDITS = [
    Audit("wrong-child-count", audits.WRONG_CHILDREN, "node {_id} says {said} children and has {found}"),
    Audit("missing-parent", audits.WITHOUT_PARENT, "node {_id} is below {parent_id}, which is gone", False),
    Audit("missing-revision", audits.WITHOUT_REVISION, "node {_id} has no revision of its version {nonce}"),
    Audit("missing-file", audits.WITHOUT_FILE, "node {_id} shows the file {file_id}, which is gone", False),
    Audit("orphan-file", audits.ORPHAN_FILES, "file {_id} is shown nowhere, and nothing is to remove it"),
    Audit("orphan-chunks", audits.ORPHAN_CHUNKS, "chunks of {_id} have no file, and nothing is to remove them"),
    Audit("wrong-comment-count", audits.WRONG_SEPARATE_COUNT, "node {_id} says {said} comments and has {found}"),
    Audit("wrong-comment-count", audits.WRONG_EMBEDDED_COUNT, "node {_id} says {said} comments and has {found}"),
    Audit("wrong-comment-count", audits.WRONG_PAGED_COUNT, "node {_id} says {said} comments and has {found}"),
    Audit("wrong-page-count", audits.WRONG_PAGE_COUNT, "page {_id} says {said} comments and has {found}"),
    Audit("leftover-comments", audits.LEFTOVER_COMMENTS, "comments of {_id} belong to no discussion"),
    Audit("leftover-comments", audits.LEFTOVER_PAGES, "pages of {_id} belong to no discussion"),
]


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant now; each check reads one snapshot, so work under way is no problem.

    Raises: `SnapshotTooOld`, `Unavailable`.
    """
    db = pinned(db)
    yield from find_stuck(db)
    for audit in AUDITS:
        yield from told(db, audit.pipeline, partial(_problem, audit))


def _problem(audit: Audit, wrong: Document) -> Problem:
    documents = {audit.pipeline.collection: wrong["_id"]}
    return Problem(audit.code, audit.message.format(**wrong), documents, audit.repairable)


def repair(db: Db) -> Counter[str]:
    """Settle unfinished operations, set wrong counts, write missing revisions, and sweep what nobody can reach.

    Atomic: each document by itself, only where it is still as it was found.
    After a crash: run it again.
    """
    db = pinned(db)
    done = Transactions(db).recover()
    for audit in AUDITS:
        if audit.repairable:
            done[audit.code] += mended(db, audit.pipeline, partial(_mend, db, audit))
    done += sweep_uploads(db)
    return +done


def _mend(db: Db, audit: Audit, found: Document) -> int:
    if audit.code == "wrong-child-count":
        return _set_count(db, NODES, "metadata.num_children", found)
    if audit.code == "wrong-comment-count":
        return _set_count(db, NODES, "metadata.num_comments", found)
    if audit.code == "wrong-page-count":
        return _set_count(db, PAGES, "count", found)
    if audit.code == "missing-revision":
        return _write_revision(db, found)
    if audit.code == "leftover-comments":
        name = COMMENTS if audit.pipeline.collection == COMMENTS else PAGES
        return db[name].delete_many({"node_id": found["_id"]["node_id"], "epoch": found["_id"]["epoch"]}).deleted_count
    return _note_removal(db, found["_id"])


def _set_count(db: Db, name: str, field: str, found: Document) -> int:
    where = {"_id": found["_id"], field: found["said"], **AT_REST}
    return db[name].update_one(where, {"$set": {field: found["found"]}}).modified_count


def _write_revision(db: Db, found: Document) -> int:
    node = db[NODES].find_one(queries.NODE(node_id=found["_id"]), WITHOUT_COMMENTS)
    if node is None or node["metadata"]["nonce"] != found["nonce"]:
        return 0
    step = rules.revision_step(cast(Node, node), node["metadata"]["author"], node["metadata"]["updated"])
    try:
        db[REVISIONS].insert_one({"_id": step.id, **(step.insert or {})})
    except DuplicateKeyError:
        return 0
    return 1


def _note_removal(db: Db, file_id: str) -> int:
    """A file without an owner is not deleted at once: its upload may have been noted by a reader a moment ago."""
    step = rules.removal_step("file", file_id, server_now(db) + timedelta(seconds=rules.KEEP_FILES_SECONDS))
    db[REMOVALS].insert_one({"_id": step.id, **(step.insert or {})})
    return 1
