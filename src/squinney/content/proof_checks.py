"""The promises that must hold for a site after the workers of `proof` were killed."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial

from squinney.content.comments.comments import Comments
from squinney.content.documents import Comment
from squinney.content.files.documents import CHUNKS, FILES, UPLOADS
from squinney.content.nodes.documents import NODES, REVISIONS, WITHOUT_COMMENTS
from squinney.content.photos.photos import Photos
from squinney.content.removals import REMOVALS
from squinney.content.repair import find_problems
from squinney.errors import SquinneyError
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import all_items

SETTLED_WITHIN_SECONDS = 100.0  # a killed worker's transaction may hold its documents for up to a minute
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def promises(db: Db, settle: Callable[[], object]) -> dict[str, str]:
    """Return each promise with what breaks it, or an empty string if the promise holds."""
    _expire_everything(db, settle)
    frozen = db[NODES].find({"metadata.discussion.frozen": {"$ne": None}})
    stuck = [node["_id"] for node in frozen if not _accepts_comments(db, node)]
    texts = Counter(comment["text"] for comment in _comments(db))
    return {
        "every accepted edit is in the history, and each version once": _shortened(_broken_histories(db)),
        "no acknowledged comment is lost": _shortened(_lost_comments(db, texts)),
        "no comment was posted twice": _shortened(text for text, times in texts.items() if times > 1),
        "no discussion is stuck in a conversion": _shortened(stuck),
        "no reader got half a photo": _shortened(str(half["node_id"]) for half in db["halves"].find()),
        "every photo is complete, and every acknowledged one was shown": _shortened(_broken_photos(db)),
        "no file and no chunk is left over": _leftovers(db),
        "find_problems is empty": _shortened(str(problem) for problem in find_problems(db)),
    }


def _shortened(items: Iterable[str]) -> str:
    """Return the number of items and the first three; an empty string if there are none."""
    broken = list(items)
    return f"{len(broken)}: {', '.join(broken[:3])}" if broken else ""


def _expire_everything(db: Db, settle: Callable[[], object]) -> None:
    """Make all uploads stalled, all removals due and all freezes expired, and run the jobs until nothing is left."""
    until = time.monotonic() + SETTLED_WITHIN_SECONDS
    while time.monotonic() < until:
        try:
            db[UPLOADS].update_many({}, {"$set": {"seen": LONG_AGO}})
            db[REMOVALS].update_many({}, {"$set": {"due_at": LONG_AGO}})
            frozen = {"metadata.discussion.frozen": {"$ne": None}}
            db[NODES].update_many(frozen, {"$set": {"metadata.discussion.frozen.until": LONG_AGO}})
            settle()
        except SquinneyError:
            pass
        unfinished = db["squinney.keys"].count_documents({"state": {"$in": ["new", "commit", "rollback"]}})
        if not unfinished and not any(db[name].count_documents({}) for name in (UPLOADS, REMOVALS)):
            return
        time.sleep(0.3)


def _accepts_comments(db: Db, node: Document) -> bool:
    try:
        Comments(db, only_nodes=True).post(
            node["_id"], {"_id": "late", "name": "Late"}, f"after the freeze of {node['_id']}"
        )
    except SquinneyError:
        return False
    return True


def _broken_histories(db: Db) -> Iterator[str]:
    accepted = {intent["nonce"]: intent for intent in db["intents"].find({"kind": "edit", "acknowledged": True})}
    for node in db[NODES].find({}, WITHOUT_COMMENTS):
        kept = {revision["nonce"]: revision for revision in db[REVISIONS].find({"node_id": node["_id"]})}
        versions = sorted(revision["version"] for revision in kept.values())
        if versions != list(range(1, node["metadata"]["version"] + 1)) or node["metadata"]["nonce"] not in kept:
            yield f"node {node['_id']} at version {node['metadata']['version']} has {len(kept)} versions"
        for nonce in kept.keys() & accepted.keys():
            if kept[nonce]["metadata"]["title"] == accepted[nonce]["_id"]:
                del accepted[nonce]
    yield from (f"edit {nonce}" for nonce in accepted)


def _comments(db: Db) -> Iterator[Comment]:
    comments = Comments(db, only_nodes=True)
    for node in db[NODES].find({"metadata.discussion": {"$ne": None}}, {"_id": 1}):
        comments_read = all_items(partial(comments.page, node["_id"], limit=200))
        yield from (comment for comment in comments_read if not comment.get("deleted"))


def _lost_comments(db: Db, texts: Counter[str]) -> Iterator[str]:
    """Yield acknowledged comments that are missing, unless a worker has tried to delete them."""
    deleted = {intent["text"] for intent in db["intents"].find({"kind": "delete"})}
    for posted in db["intents"].find({"kind": "post", "acknowledged": True}):
        if posted["_id"] not in texts and posted["_id"] not in deleted:
            yield str(posted["_id"])


def _broken_photos(db: Db) -> Iterator[str]:
    photos = Photos(db)
    for node in db[NODES].find({"metadata.type": "photo"}, WITHOUT_COMMENTS):
        for rendition in ("web", "original"):
            asset = photos.open(node["_id"], rendition)
            if hashlib.sha256(b"".join(asset.read())).hexdigest() != asset.sha256:
                yield f"{rendition} of {node['_id']}"
    for sent in db["intents"].find({"kind": {"$in": ["upload", "replace"]}, "acknowledged": True}):
        shown = {"node_id": sent["node_id"], "metadata.detail.sha256": sent["sha256"]}
        if db[REVISIONS].count_documents(shown) != 1:
            yield f"{sent['kind']} {sent['_id']}"


def _leftovers(db: Db) -> str:
    """Return the numbers of files, chunks and uploads if there are others than those that photos use."""
    photos = db[NODES].count_documents({"metadata.type": "photo"})
    files = list(db[FILES].find())
    chunks = sum(-(-file["length"] // file["chunkSize"]) for file in files)
    left = (len(files), db[CHUNKS].count_documents({}), db[UPLOADS].count_documents({}))
    return "" if left == (2 * photos, chunks, 0) else f"{left[0]} files, {left[1]} chunks, {left[2]} uploads"
