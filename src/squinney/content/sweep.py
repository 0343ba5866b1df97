"""What uploads, replacements, removals and conversions leave behind, deleted when its time has come.

Safe when any number of processes do it at once, and whenever one of them stops.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from squinney.content.comments.documents import COMMENTS, FLAGS, PAGES
from squinney.content.files import queries as file_queries
from squinney.content.files.documents import REMOVALS, UPLOADS
from squinney.content.files.rules import KEEP_FILES_SECONDS, removal_step
from squinney.content.files.uploads import delete_files
from squinney.content.nodes import queries as node_queries
from squinney.content.nodes.documents import NODES, REVISIONS
from squinney.errors import Conflict
from squinney.mongo.connect import operation, server_now
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.jobs import Job
from squinney.transactions import Step, Transactions

STALLED_SECONDS = 300


def sweep_uploads(db: Db, *, stalled_seconds: float = STALLED_SECONDS) -> Counter[str]:
    """Give up uploads that have been silent: the record goes first, so that none of them can finish, then the files.

    Atomic: a record goes and two notices for its file come in one transaction: one due now, one for an hour later,
    for chunks that were still on their way.
    After a crash: the notices stand, and the next sweep deletes the files.
    """
    db = pinned(db)
    done: Counter[str] = Counter()
    with operation(300):
        now = server_now(db)
        silent = now - timedelta(seconds=stalled_seconds)
        for upload in list(file_queries.STALLED.find(db, before=silent)):
            done["uploads given up"] += _give_up(db, upload)
        done += sweep_removals(db)
    return +done


def _give_up(db: Db, upload: Document) -> int:
    now = server_now(db)
    gone = Step(UPLOADS, upload["_id"], guard={"seen": upload["seen"]}, delete=True, refused=Conflict)
    later = now + timedelta(seconds=KEEP_FILES_SECONDS)
    notices = [removal_step("file", upload["file_id"], due_at) for due_at in (now, later)]
    try:
        Transactions(db).run("give-up-upload", [gone, *notices])
    except Conflict:  # it lives after all, or another sweep was faster
        return 0
    return 1


def sweep_removals(db: Db) -> Counter[str]:
    """Delete what is due: files no node shows, what hung on removed nodes, what conversions left.

    Atomic: each deletion by itself; the notice goes last.
    After a crash: the next sweep goes on.
    """
    db = pinned(db)
    done: Counter[str] = Counter()
    with operation(300):
        for removal in list(file_queries.DUE_REMOVALS.find(db, now=server_now(db))):
            done += DELETIONS[removal["kind"]](db, removal)
            db[REMOVALS].delete_one({"_id": removal["_id"]})
    return +done


def _delete_file(db: Db, removal: Document) -> Counter[str]:
    if db[NODES].find_one(node_queries.SHOWN_FILE(file_id=removal["target_id"]), {"_id": 1}):
        return Counter()
    return Counter({"files": delete_files(db, removal["target_id"])})


def _delete_rest_of_node(db: Db, removal: Document) -> Counter[str]:
    """Everything that hung on a node that is gone."""
    of_node = {"node_id": removal["target_id"]}
    node_id = removal["target_id"]
    flags = db[FLAGS].delete_many({"_id": {"$gt": f"{node_id}/", "$lt": f"{node_id}0"}}).deleted_count
    counts = {name: db[name].delete_many(of_node).deleted_count for name in (REVISIONS, COMMENTS, PAGES)}
    return Counter({**counts, FLAGS: flags})


def _delete_old_comments(db: Db, removal: Document) -> Counter[str]:
    """What a finished conversion left behind, or all copies of one that died."""
    name = COMMENTS if removal["kind"] == "comments" else PAGES
    epoch = {"$lt": removal["below_epoch"]} if "below_epoch" in removal else removal["epoch"]
    where = {"node_id": removal["target_id"], "epoch": epoch}
    return Counter({f"old {name}": db[name].delete_many(where).deleted_count})


DELETIONS = {
    "file": _delete_file,
    "node": _delete_rest_of_node,
    "comments": _delete_old_comments,
    "pages": _delete_old_comments,
}

JOBS = [
    Job("sweep-uploads", every_seconds=60, run=sweep_uploads, what="gives up uploads that have been silent"),
    Job("sweep-content", every_seconds=60, run=sweep_removals, what="deletes files and comments nobody can reach"),
]
