"""Counters: what was delivered, a document for each campaign, day, zone and unit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError, OperationFailure

from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.transactions.native import send


class Row(NamedTuple):
    """Whose counter."""

    campaign_id: str
    day: datetime
    site: str
    zone: str
    unit: str


def add(db: Db, counts: Mapping[Row, Mapping[str, int]], session: ClientSession) -> None:
    """Add to counters, in one command; a counter that is not there begins with it."""
    writes = [update(_where(row), more, upsert=True) for row, more in counts.items()]
    write(db, "ad_counters", "update", writes, session)


def _where(row: Row) -> Document:
    """The campaign and day also by themselves: they are the shard key."""
    whole = row._asdict()
    return {"_id": whole, **whole}


def update(where: Document, increments: Mapping[str, int], *, upsert: bool = False) -> Document:
    """One element of an update command."""
    return {"q": where, "u": {"$inc": dict(increments)}, "upsert": upsert}


def write(db: Db, name: str, verb: str, writes: list[Document], session: ClientSession) -> Document:
    """One command, if there is anything to write.

    Raises: `DuplicateKeyError` where another has made one of the documents.
    """
    if not writes:
        return {}
    answer = send(db, name, verb, writes, session)
    for report in answer.get("writeErrors", ()):
        kind = DuplicateKeyError if report["code"] == DUPLICATE_KEY else OperationFailure
        raise kind(report["errmsg"], report["code"], report)
    return answer
