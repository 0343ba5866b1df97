"""Deletes what uploads, replacements, removals and conversions leave, when it is due.

Any number of processes may do so together, and each of them may stop at any time.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from squinney.content.comments.documents import COMMENTS, FLAGS, PAGES
from squinney.content.files import queries as file_queries
from squinney.content.files.documents import UPLOADS
from squinney.content.files.uploads import delete_files
from squinney.content.nodes import queries as node_queries
from squinney.content.nodes.documents import REVISIONS
from squinney.content.removals import KEEP_FILES_SECONDS, REMOVALS, removal_step
from squinney.errors import Conflict
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import server_now
from squinney.patterns.jobs import Job
from squinney.transactions import Step, Transactions

STALLED_SECONDS = 300
AT_ONCE = 5_000  # of one run; the rest waits for the next


def give_up_uploads(db: Db, *, stalled_seconds: float = STALLED_SECONDS) -> Counter[str]:
    """Give up silent uploads, up to 5,000: delete the record first, so that the upload cannot finish, then the files.

    Atomic: one transaction deletes the record and schedules two removals of its file: one is due now, the other in an
    hour, for chunks that are still being sent.
    After a crash: the removals remain scheduled, and the next run deletes the files.
    """
    db = pinned(db)
    done: Counter[str] = Counter()
    with operation(300):
        now = server_now(db)
        before = now - timedelta(seconds=stalled_seconds)
        for upload in list(file_queries.STALLED.find(db, before=before, limit=AT_ONCE)):
            done["uploads given up"] += _give_up(db, upload)
        done += delete_leftovers(db)
    return +done


def _give_up(db: Db, upload: Document) -> int:
    now = server_now(db)
    # guard: an active upload is not given up
    record = Step(UPLOADS, upload["_id"], guard={"seen": upload["seen"]}, delete=True, refused=Conflict)
    later = now + timedelta(seconds=KEEP_FILES_SECONDS)
    removals = [removal_step("file", upload["file_id"], due_at) for due_at in (now, later)]
    try:
        Transactions(db).run("give-up-upload", [record, *removals])
    except Conflict:  # the upload continues after all, or another process was faster
        return 0
    return 1


def delete_leftovers(db: Db) -> Counter[str]:
    """Delete what is due, up to 5,000 of it: unused files, data of removed nodes, and leftovers of conversions.

    Atomic: each deletion separately; the record of the removal is deleted last.
    After a crash: the next run continues.
    """
    db = pinned(db)
    done: Counter[str] = Counter()
    with operation(300):
        for removal in list(file_queries.DUE_REMOVALS.find(db, now=server_now(db), limit=AT_ONCE)):
            done += DELETIONS[removal["kind"]](db, removal)
            db[REMOVALS].delete_one({"_id": removal["_id"]})
    return +done


def _delete_file(db: Db, removal: Document) -> Counter[str]:
    if node_queries.SHOWN_FILE.find_one(db, file_id=removal["target_id"], projection={"_id": 1}):
        return Counter()
    return Counter({"files": delete_files(db, removal["target_id"])})


def _delete_rest_of_node(db: Db, removal: Document) -> Counter[str]:
    """Delete the versions, comments and flags of a removed node."""
    node_id = removal["target_id"]
    flags = db[FLAGS].delete_many({"_id": {"$gt": f"{node_id}/", "$lt": f"{node_id}0"}}).deleted_count
    counts = {name: db[name].delete_many({"node_id": node_id}).deleted_count for name in (REVISIONS, COMMENTS, PAGES)}
    return Counter({**counts, FLAGS: flags})


def _delete_old_comments(db: Db, removal: Document) -> Counter[str]:
    """Delete the old comments of a finished conversion, or all copies of a conversion that died."""
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
    Job(
        "give-up-uploads", every_seconds=60, run=give_up_uploads, what="gives up silent uploads and deletes their files"
    ),
    Job("delete-leftovers", every_seconds=60, run=delete_leftovers, what="deletes unused files and comments"),
]
