"""`recover`: settles the runs that crashed processes left."""

from __future__ import annotations

import logging
from collections import Counter

from pymongo.errors import PyMongoError

from squinney.mongo.deadlines import operation
from squinney.mongo.failures import is_away
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import server_now
from squinney.transactions.two_phase.documents import DUE
from squinney.transactions.two_phase.settling import settle

log = logging.getLogger(__name__)


def recover(db: Db) -> Counter[str]:
    """Settle the due runs of crashed processes; return counts by outcome.

    Atomic: each document's own update. Any number of processes may recover concurrently.
    After a crash: the next `recover()` continues.
    """
    db = pinned(db)
    counts: Counter[str] = Counter()
    with operation(60):
        for record in list(DUE.find(db, until=server_now(db))):
            counts[_settled(db, record)] += 1
    return counts


def _settled(db: Db, record: Document) -> str:
    """Settle one run. If the server rejects a write, log that, so that the other runs are settled."""
    try:
        return settle(db, record)
    except PyMongoError as error:
        if is_away(error):
            raise
        reason = getattr(error, "details", None) or error
        log.error("run %s cannot be settled; see `squinney ledger stuck`: %s", record["_id"], reason)
        return "stuck"
