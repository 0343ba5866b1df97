"""Conversion of a discussion from one strategy to another while users post.

1. Claim: take a new epoch number.
2. Copy: copy all comments under that epoch, where no reader looks.
3. Freeze: for a moment the node refuses writes of comments; writers wait and try again.
4. Copy again: bring the copies up to date.
5. Switch: one transaction updates the node.

A conversion that takes too long cannot switch: the freeze has a token and a time limit, and any writer lifts a freeze
that has expired. A conversion cannot switch either after another one has made a later claim. So copies of an epoch
before one's own claim will never be read, and may be deleted.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import bson
from pymongo import DeleteMany, InsertOne, ReplaceOne
from pymongo.errors import BulkWriteError

from squinney.content.comments import queries as comment_queries
from squinney.content.comments.discussions import DiscussedNode
from squinney.content.comments.documents import COMMENTS, COMMENTS_A_PAGE, MAX_EMBEDDED_BYTES, PAGES, SUBJECTS
from squinney.content.comments.embedded import full
from squinney.content.comments.paged import page_id
from squinney.content.documents import Comment, Strategy
from squinney.content.nodes import queries
from squinney.content.nodes.documents import NODES
from squinney.content.nodes.freezing import thaw, thaw_if_expired
from squinney.content.removals import REMOVALS, removal_step
from squinney.errors import Unavailable
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import server_now
from squinney.transactions import Busy, Step, Transactions, Tries

FREEZE_SECONDS = 60
WAIT_SECONDS = 6
BATCH = 1_000
# Readers with an outdated node document still find all comments of the old epoch for this time.
KEEP_OLD_SECONDS = 600
ABANDONED_SECONDS = 3_600
REMOVAL_KINDS = {"separate": "comments", "paged": "pages"}


def convert(
    db: Db, transactions: Transactions, discussed: DiscussedNode, source: Callable[[], Iterable[Comment]], to: Strategy
) -> None:
    """Convert the discussion in the five steps that the module describes; `source` reads all its comments."""
    epoch = _claim(db, discussed)
    removal_id = _schedule_removal(db, discussed, to, epoch)
    copy = partial(COPY_TO[to], db, discussed.node_id, epoch)
    copy(source())
    token = _freeze(db, discussed, epoch)
    try:
        fields = copy(source())
        _switch(db, transactions, discussed, to, epoch, token, fields, removal_id)
    except BaseException:
        with suppress(Unavailable):  # a freeze that remains expires
            thaw(db, discussed.collection, discussed.node_id, token)
        raise


def _claim(db: Db, discussed: DiscussedNode) -> int:
    """Claim and return an epoch that no other conversion has used."""
    update = {"$inc": {"metadata.discussion.claimed": 1}}
    where = {**discussed.filter, **discussed.guard}
    claimed = db[discussed.collection].find_one_and_update(
        where, update, {"metadata.discussion": 1}, return_document=True
    )
    if claimed is None:
        raise _is_converted()
    return int(claimed["metadata"]["discussion"]["claimed"])


def _is_converted() -> Busy:
    return Busy("the discussion is being converted, or its node was moved; try again")


def _schedule_removal(db: Db, discussed: DiscussedNode, to: Strategy, epoch: int) -> str | None:
    """Schedule the removal of the copies, in case this conversion dies; return the removal's id.

    The switch cancels the removal. Conversion to `embedded` stores no copies, and gives None.
    """
    if to == "embedded":
        return None
    due = server_now(db) + timedelta(seconds=ABANDONED_SECONDS)
    step = removal_step(REMOVAL_KINDS[to], discussed.node_id, due, epoch=epoch)
    db[REMOVALS].insert_one({"_id": step.id, **(step.insert or {})})
    return str(step.id)


def _freeze(db: Db, discussed: DiscussedNode, epoch: int) -> str:
    """Block writes of comments until the switch, or until the freeze expires; return the freeze's token.

    Only the newest claim may freeze, because a conversion with a later claim deletes the copies of earlier ones.
    """
    token = secrets.token_hex(8)
    until = server_now(db) + timedelta(seconds=FREEZE_SECONDS)
    frozen = {"$set": {"metadata.discussion.frozen": {"token": token, "until": until}}}
    # guard: only the newest claim freezes a discussion
    mine = {**discussed.filter, **discussed.guard, "metadata.discussion.claimed": epoch}
    if not db[discussed.collection].update_one(mine, frozen).matched_count:
        raise _is_converted()
    return token


def retire_epoch(db: Db, node_id: str, epoch: int) -> bool:
    """Ensure that comments of an epoch that was not the subject's are never read; return False if they are read now.

    A conversion that is copying to this epoch loses its claim to another one. A frozen conversion is waited for.
    """
    return all(_retire_epoch(db, collection, node_id, epoch) for collection in (NODES, SUBJECTS))


def _retire_epoch(db: Db, collection: str, node_id: str, epoch: int) -> bool:
    newest = {"metadata.discussion.epoch": {"$lt": epoch}, "metadata.discussion.claimed": epoch}
    tries = Tries(FREEZE_SECONDS + WAIT_SECONDS, what="the discussion")
    while True:
        where = {"_id": node_id, **newest, "metadata.discussion.frozen": None}
        db[collection].update_one(where, {"$inc": {"metadata.discussion.claimed": 1}})
        subject = db[collection].find_one({"_id": node_id}, {"metadata.discussion": 1})
        discussion = subject["metadata"].get("discussion") if subject else None
        if discussion is None:
            return True
        if discussion["epoch"] >= epoch or discussion["claimed"] != epoch:
            return bool(discussion["epoch"] != epoch)
        if frozen := discussion.get("frozen"):
            thaw_if_expired(db, collection, node_id, frozen)
        tries.pause()


def epochs_of(db: Db, ids: Iterable[str]) -> dict[str, int]:
    """Return the current epoch of each subject's discussion; subjects without a discussion are left out."""
    wanted = sorted(ids)
    fields = {"metadata.discussion.epoch": 1}
    subjects = list(queries.NODES_BY_ID.find(db, node_ids=wanted, projection=fields))
    if others := sorted({*wanted} - {node["_id"] for node in subjects}):
        subjects += comment_queries.SOME_SUBJECTS.find(db, subjects=others, projection=fields)
    discussions = ((subject["_id"], subject["metadata"].get("discussion")) for subject in subjects)
    return {subject: discussion["epoch"] for subject, discussion in discussions if discussion}


def _switch(
    db: Db,
    transactions: Transactions,
    discussed: DiscussedNode,
    to: Strategy,
    epoch: int,
    token: str,
    fields: Document,
    removal_id: str | None,
) -> None:
    discussion = {"metadata.discussion.strategy": to, "metadata.discussion.epoch": epoch}
    unset = {"metadata.discussion.frozen": ""}
    if to != "embedded":
        unset["metadata.comments"] = ""
    late = Busy("the conversion took too long; try again")
    switch = Step(
        discussed.collection,
        discussed.node_id,
        route=discussed.route,
        # guard: only the conversion that froze a discussion switches it
        guard={"metadata.discussion.frozen.token": token},
        update={"$set": {**discussion, **fields}, "$unset": unset},
        refused=lambda _: late,
    )
    steps = [switch]
    if kind := REMOVAL_KINDS.get(discussed.discussion["strategy"]):
        due = server_now(db) + timedelta(seconds=KEEP_OLD_SECONDS)
        steps.append(removal_step(kind, discussed.node_id, due, below_epoch=epoch))
    if removal_id is not None:
        steps.append(Step(REMOVALS, removal_id, delete=True, refused=lambda _: late))
    transactions.run("convert-discussion", steps)


# ---- copying: each function updates the copies and returns the fields to set in the node ----


def _copy_to_documents(db: Db, node_id: str, epoch: int, comments: Iterable[Comment]) -> Document:
    stored = db[COMMENTS].find({"node_id": node_id}, {"version": 1, "num_replies": 1, "epoch": 1})
    known = {comment["_id"]: _state(comment) for comment in stored if comment.get("epoch") == epoch}
    writes: list[Any] = []
    if not known:
        writes.append(DeleteMany({"node_id": node_id, "epoch": {"$lt": epoch}}))
    for comment in comments:
        before = known.pop(comment["_id"], None)
        if before != _state(comment):
            where = {"_id": comment["_id"], "node_id": node_id, "slug": comment["slug"], "epoch": epoch}
            writes.append(_copy_write({**comment, "epoch": epoch}, where, is_new=before is None))
        if len(writes) >= BATCH:
            _bulk_write(db[COMMENTS], writes)
            writes = []
    removed = {"node_id": node_id, "_id": {"$in": list(known)}, "epoch": epoch}
    _bulk_write(db[COMMENTS], [*writes, *([DeleteMany(removed)] if known else [])])
    return {"metadata.num_comment_pages": 0}


def _copy_to_node(db: Db, node_id: str, epoch: int, comments: Iterable[Comment]) -> Document:
    size = 0
    copied = []
    for comment in comments:
        copied.append(comment)
        size += len(bson.encode(comment)) + 10
        if size > MAX_EMBEDDED_BYTES:
            raise full()
    return {"metadata.num_comment_pages": 0, "metadata.comments": copied}


def _copy_to_pages(db: Db, node_id: str, epoch: int, comments: Iterable[Comment]) -> Document:
    everything = sorted(comments, key=lambda comment: comment["_id"])
    stored = db[PAGES].find({"node_id": node_id, "epoch": epoch})
    known = {page["page"]: [_state(comment) for comment in page["comments"]] for page in stored}
    pages = -(-len(everything) // COMMENTS_A_PAGE)
    writes: list[Any] = [DeleteMany({"node_id": node_id, "epoch": {"$lt": epoch}})]
    writes.append(DeleteMany({"node_id": node_id, "epoch": epoch, "page": {"$gt": pages}}))
    for number in range(1, pages + 1):
        items = everything[(number - 1) * COMMENTS_A_PAGE : number * COMMENTS_A_PAGE]
        if known.get(number) != [_state(comment) for comment in items]:
            where = {"_id": page_id(node_id, epoch, number), "node_id": node_id, "page": number}
            page = {**where, "epoch": epoch, "count": len(items), "comments": items}
            writes.append(_copy_write(page, where, is_new=number not in known))
    _bulk_write(db[PAGES], writes)
    return {"metadata.num_comment_pages": pages}


COPY_TO = {"separate": _copy_to_documents, "embedded": _copy_to_node, "paged": _copy_to_pages}


def _copy_write(copy: Document, where: Document, *, is_new: bool) -> InsertOne[Document] | ReplaceOne[Document]:
    return InsertOne(copy) if is_new else ReplaceOne(where, copy)


def _state(comment: Any) -> tuple[Any, ...]:
    return comment["_id"], comment["version"], comment["num_replies"]


def _bulk_write(collection: Any, writes: list[Any]) -> None:
    try:
        if writes:
            collection.bulk_write(writes)
    except BulkWriteError as error:  # a conversion with a later claim writes the same comments
        raise _is_converted() from error
