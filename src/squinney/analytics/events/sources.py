"""Which log a file is: known by the beginning of its content, never by its name or inode.

A source keeps the length and hash of its head. A file whose first bytes hash to the same continues it: a rotated copy,
a renamed file, the same log compressed. The head grows with a young file, up to `HEAD_BYTES`.
"""

from __future__ import annotations

import hashlib
from typing import cast

from pymongo.errors import DuplicateKeyError

from squinney.analytics.errors import ImportRunning
from squinney.analytics.events.documents import Import
from squinney.analytics.events.log_content import Content
from squinney.analytics.events.reading import HEAD_BYTES
from squinney.clock import Clock
from squinney.mongo.schema import Db, Document

FORGETTING = "forgetting"


def id_of(text: bytes) -> str:
    """A source's id: 16 hexadecimal digits of its head's or given name's hash."""
    return hashlib.sha256(text).hexdigest()[:16]


def event_id(source: str, offset: int) -> str:
    """The id of what begins at this byte: the same however often the line is read, and in the order of the file."""
    return f"{source}-{offset:012x}"


def offset_in(event_id: str) -> int:
    """The byte at which the event's line begins."""
    return int(event_id.rpartition("-")[2], 16)


def log_of(event_id: str) -> str:
    """The source of an imported event; nothing for one that was recorded singly."""
    return str(event_id).rpartition("-")[0]


def find(db: Db, head: bytes, name: str | None) -> list[Import]:
    """The sources that a file with this head may continue, the likeliest first, or the one of the given name."""
    if name is not None:
        named = db["imports"].find_one({"_id": id_of(name.encode())})
        return [cast(Import, named)] if named else []
    lengths = [length for length in db["imports"].distinct("head_length") if 0 < length <= len(head)]
    hashes = [head_hash(head[:length]) for length in lengths]
    found = db["imports"].find({"head_hash": {"$in": hashes}}).sort("head_length", -1)
    return cast(list[Import], sorted(found, key=lambda one: (-one["head_length"], -one["offset"])))


def begin(db: Db, content: Content, *, name: str | None, title: str, site: str, clock: Clock) -> Import:
    """The source of a file, made known if it is new, with as much of its head as there is by now.

    Its content tells it from others that begin alike.

    Atomic: one insert, or one update.
    After a crash: the source is known, with nothing read yet.
    Raises: `ImportRunning` where it was continued at the same moment, by the same log or by one that began alike, or
    was cut.
    """
    head = content.head
    alike = find(db, head, name)
    source = next((one for one in alike if name or content.is_continuation_of(one)), None)
    if source is not None:
        _refuse_forgotten(source)
        if name is None and source["head_length"] < len(head) and not _grow(db, source, head):
            raise ImportRunning("another process is importing this source, or one that began alike; try again")
        return source
    if not content.is_still_there():
        raise ImportRunning("the log was cut while it was looked at; try again")
    source = _new(head, name, title, site, clock)
    if alike:  # there is one of that head already
        source["_id"] = id_of(head + content.chain()["digests"])
    try:
        db["imports"].insert_one(cast(Document, source))
    except DuplicateKeyError:  # another process began it at the same moment
        source = cast(Import, db["imports"].find_one({"_id": source["_id"]}))
    return source


def _refuse_forgotten(source: Import) -> None:
    if source["state"] == FORGETTING:
        raise ImportRunning(f"{source['name']} is being forgotten; `squinney analytics forget {source['_id']}` goes on")


def _grow(db: Db, source: Import, head: bytes) -> bool:
    """Know the source by all of this head; false where another import, perhaps of another log, was faster."""
    grown: Document = {"head_length": len(head), "head_hash": head_hash(head)}
    unchanged = {"_id": source["_id"], "head_length": source["head_length"]}
    return db["imports"].update_one(unchanged, {"$set": grown}).matched_count == 1


def _new(head: bytes, name: str | None, title: str, site: str, clock: Clock) -> Import:
    return {
        "_id": id_of(head if name is None else name.encode()),
        "name": title,
        "site": site,
        "format": "",
        "head_length": len(head) if name is None else 0,
        "head_hash": head_hash(head) if name is None else "",
        "offset": 0,
        "lines": 0,
        "stored": 0,
        "rejected": 0,
        "blank": 0,
        "state": "running",
        "updated_at": clock(),
    }


def head_hash(head: bytes) -> str:
    """What a log of this beginning is known by."""
    return hashlib.sha256(head[:HEAD_BYTES]).hexdigest()
