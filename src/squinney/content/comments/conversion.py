"""Moving a discussion from one strategy to another while people write.

Claim: a fresh epoch number. Copy: everything, under that epoch, where no reader looks. Freeze: the node refuses writes
of comments for a moment (they wait and try again). Copy what changed. Switch: one transaction on the node. A claim that
took too long cannot switch: the freeze carries its token and is lifted by whoever meets it after its time. Neither can
one that another claim has followed, so copies of an earlier epoch than one's own are nobody's and may be deleted.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import bson
from pymongo import DeleteMany, InsertOne, ReplaceOne
from pymongo.errors import BulkWriteError

from squinney.content.comments.discussions import DiscussedNode, Storage
from squinney.content.comments.documents import COMMENTS, COMMENTS_A_PAGE, MOST_EMBEDDED_BYTES, PAGES, Comment, Strategy
from squinney.content.comments.paged import page_id
from squinney.content.errors import DiscussionFull
from squinney.content.files.documents import REMOVALS
from squinney.content.files.rules import removal_step
from squinney.content.nodes import queries
from squinney.content.nodes.documents import NODES
from squinney.errors import Unavailable
from squinney.mongo.connect import operation, server_now
from squinney.mongo.schema import Db, Document
from squinney.transactions import UNLOCKED, Busy, Step, Transactions, Tries

FREEZE_SECONDS = 60
WAIT_SECONDS = 6
BATCH = 1_000
# Readers that know the old one from a node read a moment ago still find everything there for so long.
KEEP_OLD_SECONDS = 600
GIVEN_UP_SECONDS = 3_600


def convert(db: Db, transactions: Transactions, discussed: DiscussedNode, source: Storage, to: Strategy) -> None:
    """Claim, copy, freeze, copy the rest, switch."""
    epoch = _claim(db, discussed)
    notice = _note_copies(db, discussed, to, epoch)
    copy = partial(COPIES[to], db, discussed.node_id, epoch)
    copy(source.all(discussed))
    token = _freeze(db, discussed, epoch)
    try:
        fields = copy(source.all(discussed))
        _switch(db, transactions, discussed, to, epoch, token, fields, notice)
    except BaseException:
        with suppress(Unavailable):  # a freeze that stays is lifted when its time is over
            _thaw(db, discussed.node_id, token)
        raise


def _claim(db: Db, discussed: DiscussedNode) -> int:
    """An epoch that no other conversion has had."""
    update = {"$inc": {"metadata.discussion.claimed": 1}}
    where = {**discussed.filter, **discussed.guard}
    found = db[NODES].find_one_and_update(where, update, {"metadata.discussion": 1}, return_document=True)
    if found is None:
        raise Busy("the discussion is being converted already, or has moved; try again")
    return int(found["metadata"]["discussion"]["claimed"])


def _note_copies(db: Db, discussed: DiscussedNode, to: Strategy, epoch: int) -> str | None:
    """A notice for the sweep, in case this conversion dies; the switch takes it back. Embedding copies nothing."""
    if to == "embedded":
        return None
    due = server_now(db) + timedelta(seconds=GIVEN_UP_SECONDS)
    step = removal_step("comments" if to == "separate" else "pages", discussed.node_id, due, epoch=epoch)
    db[REMOVALS].insert_one({"_id": step.id, **(step.insert or {})})
    return str(step.id)


def _freeze(db: Db, discussed: DiscussedNode, epoch: int) -> str:
    """From here on no comment is written until the switch, or until the freeze has lasted too long.

    Only the newest claim may: whoever claimed later deletes the copies of earlier claims.
    """
    token = secrets.token_hex(8)
    until = server_now(db) + timedelta(seconds=FREEZE_SECONDS)
    frozen = {"$set": {"metadata.discussion.frozen": {"token": token, "until": until}}}
    # No two-phase run may be under way: its writes were permitted before the freeze and are not all done.
    mine = {**discussed.filter, **discussed.guard, "metadata.discussion.claimed": epoch}
    tries = Tries(WAIT_SECONDS, what="the discussion")
    while True:
        if db[NODES].update_one({**mine, **UNLOCKED}, frozen).matched_count:
            return token
        if db[NODES].find_one(mine, {"_id": 1}) is None:
            raise Busy("the discussion is being converted already, or has moved; try again")
        tries.pause()


@operation(5)
def _thaw(db: Db, node_id: str, token: str) -> None:
    where = {"_id": node_id, "metadata.discussion.frozen.token": token}
    db[NODES].update_one(where, {"$unset": {"metadata.discussion.frozen": ""}})


def thaw_if_expired(db: Db, node_id: str, frozen: Document) -> None:
    """End the freeze of a conversion that died; its token keeps it from switching afterwards."""
    if frozen["until"] < server_now(db):
        _thaw(db, node_id, frozen["token"])


def disown(db: Db, node_id: str, epoch: int) -> bool:
    """Whether comments of this epoch, which was not the node's, are nobody's and stay so.

    A conversion that copies is kept from switching by one more claim; one that is about to switch is waited for.
    """
    newest = {"metadata.discussion.epoch": {"$lt": epoch}, "metadata.discussion.claimed": epoch}
    tries = Tries(FREEZE_SECONDS + WAIT_SECONDS, what="the discussion")
    while True:
        where = {"_id": node_id, **newest, "metadata.discussion.frozen": None}
        db[NODES].update_one(where, {"$inc": {"metadata.discussion.claimed": 1}})
        found = db[NODES].find_one({"_id": node_id}, {"metadata.discussion": 1})
        discussion = found["metadata"].get("discussion") if found else None
        if discussion is None:
            return True
        if discussion["epoch"] >= epoch or discussion["claimed"] != epoch:
            return bool(discussion["epoch"] != epoch)
        if frozen := discussion.get("frozen"):
            thaw_if_expired(db, node_id, frozen)
        tries.pause()


def epochs_of(db: Db, node_ids: Iterable[str]) -> dict[str, int]:
    """Of which epoch the live comments of each node are; a node without a discussion has none."""
    fields = {"metadata.discussion.epoch": 1}
    found = queries.NODES_BY_ID.find(db, node_ids=sorted(node_ids), projection=fields)
    talked_about = ((node["_id"], node["metadata"].get("discussion")) for node in found)
    return {node_id: discussion["epoch"] for node_id, discussion in talked_about if discussion}


def _switch(
    db: Db,
    transactions: Transactions,
    discussed: DiscussedNode,
    to: Strategy,
    epoch: int,
    token: str,
    fields: Document,
    notice: str | None,
) -> None:
    discussion = {"metadata.discussion.strategy": to, "metadata.discussion.epoch": epoch}
    leaving = {"metadata.discussion.frozen": ""}
    if to != "embedded":
        leaving["metadata.comments"] = ""
    switch = Step(
        NODES,
        discussed.node_id,
        route=discussed.route,
        guard={"metadata.discussion.frozen.token": token},
        give={"$set": {**discussion, **fields}, "$unset": leaving},
        refused=lambda _: Busy("the conversion took too long; try again"),
    )
    steps = [switch]
    if discussed.discussion["strategy"] != "embedded":
        due = server_now(db) + timedelta(seconds=KEEP_OLD_SECONDS)
        kind = "comments" if discussed.discussion["strategy"] == "separate" else "pages"
        steps.append(removal_step(kind, discussed.node_id, due, below_epoch=epoch))
    if notice is not None:
        late = Busy("the conversion took too long; try again")
        steps.append(Step(REMOVALS, notice, delete=True, refused=lambda _: late))
    transactions.run("convert-discussion", steps)


# ---- copies: made equal to the comments; what is equal already is left alone. Each says what the node is to say ----


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
            writes.append(_write_of({**comment, "epoch": epoch}, where, is_new=before is None))
        if len(writes) >= BATCH:
            _write(db[COMMENTS], writes)
            writes = []
    gone = {"node_id": node_id, "_id": {"$in": list(known)}, "epoch": epoch}
    _write(db[COMMENTS], [*writes, *([DeleteMany(gone)] if known else [])])
    return {"metadata.num_comment_pages": 0}


def _copy_to_node(db: Db, node_id: str, epoch: int, comments: Iterable[Comment]) -> Document:
    size = 0
    copied = []
    for comment in comments:
        copied.append(comment)
        size += len(bson.encode(comment)) + 10
        if size > MOST_EMBEDDED_BYTES:
            raise DiscussionFull(
                f"the discussion is larger than the {MOST_EMBEDDED_BYTES // 2**20} MB that fit in a node",
                limit=MOST_EMBEDDED_BYTES,
            )
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
            writes.append(_write_of(page, where, is_new=number not in known))
    _write(db[PAGES], writes)
    return {"metadata.num_comment_pages": pages}


COPIES = {"separate": _copy_to_documents, "embedded": _copy_to_node, "paged": _copy_to_pages}


def _write_of(copy: Document, where: Document, *, is_new: bool) -> InsertOne[Document] | ReplaceOne[Document]:
    return InsertOne(copy) if is_new else ReplaceOne(where, copy)


def _state(comment: Any) -> tuple[Any, ...]:
    return comment["_id"], comment["version"], comment["num_replies"]


def _write(collection: Any, writes: list[Any]) -> None:
    """A clash means that another conversion, with a later claim, is at work."""
    try:
        if writes:
            collection.bulk_write(writes)
    except BulkWriteError as error:
        raise Busy("another conversion of this discussion is at work; try again") from error
