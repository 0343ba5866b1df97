"""What a user was shown, for the sake of caps, and nothing else.

```
ad_users { _id: user, shown: { <key>: { at: [times, newest last], until } }, counted: whether the last choice was,
           seen_at }       a key is a campaign's encoded id, or its id, the site, the zone and the unit
```
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from pymongo.errors import DuplicateKeyError

from squinney.ads import queries
from squinney.ads.documents import Cap
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document

TRIES = 3
MOST_CAPS = 300  # that hold for one user at once: then he is shown no further capped ads


@operation()
def count(db: Db, user: str, caps: Mapping[str, Cap], now: datetime) -> tuple[bool, dict[str, Any]]:
    """Count one more impression under each cap, if all of them allow it; whether they did, and what was shown so far.

    Atomic: one conditional update, which begins the profile where there is none.
    After a crash: it counts or it does not.
    """
    for left in reversed(range(TRIES)):
        try:
            found = db["ad_users"].find_one_and_update(
                queries.USER(user=user), _counting(caps, now), upsert=True, return_document=True
            )
            break
        except DuplicateKeyError:  # another has begun the profile at this moment
            if not left:
                raise
    profile = cast(Document, found)
    return profile["counted"], profile["shown"]


@operation(reads_only=True)
def shown_to(db: Db, user: str) -> dict[str, Any]:
    """What the user was shown, by the keys of caps."""
    profile = db["ad_users"].find_one(queries.USER(user=user))
    return profile["shown"] if profile else {}


def _entry(key: str) -> Document:
    return {"$getField": {"field": {"$literal": key}, "input": {"$ifNull": ["$shown", {}]}}}


def _times(key: str) -> Document:
    return {"$ifNull": [{"$getField": {"field": "at", "input": _entry(key)}}, []]}


def _live(now: datetime) -> Document:
    """The entries that still matter, so that a profile does not grow."""
    entries = {"$objectToArray": {"$ifNull": ["$shown", {}]}}
    return {"$filter": {"input": entries, "cond": {"$gt": ["$$this.v.until", now]}}}


def _allows(key: str, cap: Cap, now: datetime) -> Document:
    """The n-th newest impression is old enough, or there is none."""
    since = now - timedelta(seconds=cap["per_seconds"])
    nth = {"$arrayElemAt": [_times(key), -cap["impressions"]]}
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
    has_room = {"$lt": [{"$size": _live(now)}, MOST_CAPS]}
    # Of two entries of one key the later one counts.
    shown = {"$arrayToObject": {"$concatArrays": [_live(now), {"$cond": ["$counted", entries, []]}]}}
    return [
        {"$set": {"counted": {"$and": [has_room, *(_allows(key, cap, now) for key, cap in caps.items())]}}},
        {"$set": {"shown": shown, "seen_at": now}},
    ]
