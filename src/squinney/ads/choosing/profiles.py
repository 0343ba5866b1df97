"""Profiles: which capped ads a user was shown, and nothing else.

```
ads.users { _id: user, shown: { <key>: { at: [times, newest last], until } }, counted: whether the last choice was
           counted, seen_at }       a key is the encoded campaign id, or campaign id, site, zone and unit of an ad
```
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from pymongo.errors import DuplicateKeyError

from squinney.ads import queries
from squinney.ads.documents import Cap
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document

TRIES = 3
MAX_CAPS = 300  # active caps in one profile; with more, the user is shown no other capped ads


@operation()
def count(db: Db, user: str, caps: Mapping[str, Cap], now: datetime) -> tuple[bool, dict[str, Any]]:
    """Count one impression under each cap if all caps allow it; return whether they did, and the profile's `shown`.

    One conditional update does it, and creates the profile if needed.
    """
    for left in reversed(range(TRIES)):
        try:
            updated = db["ads.users"].find_one_and_update(
                queries.USER(user=user), _counting(caps, now), upsert=True, return_document=True
            )
            break
        except DuplicateKeyError:  # another process has just created the profile
            if not left:
                raise
    profile = cast(Document, updated)
    return profile["counted"], profile["shown"]


@operation(reads_only=True)
def shown_to(db: Db, user: str) -> dict[str, Any]:
    """Return what the user was shown, by cap key."""
    profile = queries.USER.find_one(db, user=user)
    return profile["shown"] if profile else {}


def _entry(key: str) -> Document:
    return {"$getField": {"field": {"$literal": key}, "input": {"$ifNull": ["$shown", {}]}}}


def _times(key: str) -> Document:
    return {"$ifNull": [{"$getField": {"field": "at", "input": _entry(key)}}, []]}


def _live(now: datetime) -> Document:
    """Keep only entries that a cap may still need, so that a profile does not grow."""
    entries = {"$objectToArray": {"$ifNull": ["$shown", {}]}}
    return {"$filter": {"input": entries, "cond": {"$gt": ["$$this.v.until", now]}}}


def _allows(key: str, cap: Cap, now: datetime) -> Document:
    """Check that the n-th newest impression is outside of the cap's window, or that there are fewer than n."""
    since = now - timedelta(seconds=cap["per_seconds"])
    nth = {"$arrayElemAt": [_times(key), -cap["impressions"]]}
    # guard: the update that counts an impression checks the cap
    return {"$lte": [{"$ifNull": [nth, since]}, since]}


def _counting(caps: Mapping[str, Cap], now: datetime) -> list[Document]:
    entries = [
        {
            "k": {"$literal": key},
            "v": {
                "at": {"$slice": [{"$concatArrays": [_times(key), [now]]}, -cap["impressions"]]},
                "until": now + timedelta(seconds=cap["per_seconds"]),
            },
        }
        for key, cap in caps.items()
    ]
    has_room = {"$lt": [{"$size": _live(now)}, MAX_CAPS]}
    # If two entries have the same key, `$arrayToObject` uses the last one.
    shown = {"$arrayToObject": {"$concatArrays": [_live(now), {"$cond": ["$counted", entries, []]}]}}
    return [
        {"$set": {"counted": {"$and": [has_room, *(_allows(key, cap, now) for key, cap in caps.items())]}}},
        {"$set": {"shown": shown, "seen_at": now}},
    ]
