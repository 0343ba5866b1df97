"""Counters of what was delivered: one document for each campaign, day, zone and unit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError, OperationFailure

from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.transactions.commits import send_writes


class CounterKey(NamedTuple):
    """The key of a counter."""

    campaign_id: str
    day: datetime
    site: str
    zone: str
    unit: str


def add(db: Db, counts: Mapping[CounterKey, Mapping[str, int]], session: ClientSession) -> None:
    """Add to counters, in one command. Counters that do not exist are created."""
    writes = [update(_filter(row), increments, upsert=True) for row, increments in counts.items()]
    write(db, "ads.counters", "update", writes, session)


def _filter(row: CounterKey) -> Document:
    """Match the `_id`, and its parts as separate fields, since campaign and day are the shard key."""
    parts = row._asdict()
    return {"_id": parts, **parts}


def update(where: Document, increments: Mapping[str, int], *, upsert: bool = False) -> Document:
    """Return one statement of an update command."""
    return {"q": where, "u": {"$inc": dict(increments)}, "upsert": upsert}


def write(db: Db, name: str, verb: str, writes: list[Document], session: ClientSession) -> Document:
    """Send one command with these writes, if there are any, and return the server's reply.

    Raises: `DuplicateKeyError` if another process has inserted one of the documents.
    """
    if not writes:
        return {}
    reply = send_writes(db, name, verb, writes, session)
    for error in reply.get("writeErrors", ()):
        kind = DuplicateKeyError if error["code"] == DUPLICATE_KEY else OperationFailure
        raise kind(error["errmsg"], error["code"], error)
    return reply
