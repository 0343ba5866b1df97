"""Transactions that a dead process left open: they are found and ended, so that they block nobody for long.

A process that dies between its writes and its commit leaves a transaction open. The server ends it after
`transactionLifetimeLimitSeconds`, a minute by default; until then all other writers of its documents fail.

Ending a transaction is always safe: nothing of it was visible, and a process that is alive after all gets an error
upon which it starts again. A plain `readWrite` user may end its own sessions. Through `mongos` the user needs the
privilege `inprog`; without it nothing is ended, and the server's limit holds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from pymongo import MongoClient
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from squinney.mongo.connect import DEFAULTS
from squinney.mongo.pinned import CODEC
from squinney.mongo.schema import Db, Document

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
MIN_IDLE_SECONDS = 1.0
MAX_OPEN_SECONDS = 33.0  # the longest limit of a run and a little: with the next look, less than the limit and 5 s

_IDLE: list[Document] = [
    {"$currentOp": {"allUsers": False, "idleSessions": True}},
    {
        "$match": {
            "type": "idleSession",
            # guard: only transactions of ours are ended
            "appName": DEFAULTS["appname"],
            "transaction.parameters.autocommit": False,
            "transaction.timeInactiveMicros": {"$gte": MIN_IDLE_SECONDS * 1e6},
        }
    },
    {"$project": {"lsid": 1, "connectionId": 1, "transaction.timeOpenMicros": 1}},
]
_CONNECTIONS: list[Document] = [
    {"$currentOp": {"allUsers": False, "idleConnections": True}},
    {"$match": {"type": "op", "connectionId": {"$exists": True}}},
    {"$project": {"connectionId": 1}},
]


def end_abandoned(db: Db) -> int:
    """End the open transactions of dead processes that connected by `squinney.connect`; return how many.

    One is abandoned if its connection is closed, or, since a lost machine closes nothing, if it is older than any run
    may become.
    """
    admin = db.client.get_database("admin", codec_options=CODEC, read_concern=ReadConcern("local"))
    sessions = [{"id": lsid} for lsid in _abandoned(admin)]
    if sessions:
        admin.command("killSessions", sessions, codec_options=CODEC)
        log.warning("ended %d open transactions of dead processes", len(sessions))
    return len(sessions)


def _abandoned(admin: Db) -> Iterator[Any]:
    # Sessions first: a connection that is missing afterwards was closed while its transaction was already idle.
    idle = list(admin.aggregate(_IDLE))
    if not idle:
        return
    live = {connection["connectionId"] for connection in admin.aggregate(_CONNECTIONS)}
    for session in idle:
        too_old = session["transaction"]["timeOpenMicros"] > MAX_OPEN_SECONDS * 1e6
        # guard: a transaction that outlives any run is abandoned, though its connection is open
        # guard: a transaction whose connection is open is not abandoned
        if too_old or session["connectionId"] not in live:
            yield session["lsid"]["id"]


_last_looks: WeakKeyDictionary[MongoClient[Document], float] = WeakKeyDictionary()
_lock = Lock()


def end_what_blocks(db: Db) -> None:
    """Look for abandoned transactions, at most once a second; a failure to look is no failure of the caller."""
    with _lock:
        if _last_looks.get(db.client, 0.0) + LOOK_EVERY_SECONDS > time.monotonic():
            return
        _last_looks[db.client] = time.monotonic()
    try:
        end_abandoned(db)
    except PyMongoError as error:
        log.info("cannot look for the transactions of dead processes: %s", type(error).__name__)
