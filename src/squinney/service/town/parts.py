"""The parts of the demo data. Each is loaded as a whole, once per database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pymongo.client_session import ClientSession

from squinney.mongo.schema import Db, Document
from squinney.system import Assembled
from squinney.transactions import in_transaction

MARKS = "squinney.demo"
SECONDS = 60
ROWS_AT_ONCE = 2_000


@dataclass(frozen=True)
class Town:
    """Where the demo data goes, and the time at which its year ends."""

    systems: Assembled
    now: datetime

    @property
    def db(self) -> Db:
        """The database."""
        return self.systems.db

    def ago(self, days: float) -> datetime:
        """Return the time that many days before the end of the year."""
        return self.now - timedelta(days=days)


@dataclass(frozen=True)
class TownPart:
    """A part of the demo data: `load(town)` can be called again after a crash, and continues."""

    name: str
    system: str
    title: str
    load: Callable[[Town], None]


def is_demo(db: Db) -> bool:
    """Return whether the database has the town, and so nothing that belongs to somebody."""
    return db[MARKS].find_one({"_id": "town: bank"}) is not None


def insert(db: Db, part: str, documents: Mapping[str, Sequence[Document]]) -> None:
    """Insert documents by collection, and mark the part as loaded. A part that is loaded already is left alone.

    Atomic: one transaction.
    After a crash: nothing remains.
    Raises: `Busy`, `Unavailable`.
    """

    def write(session: ClientSession) -> None:
        # The mark is written first: of two processes that load at the same time, one waits here and then finds it.
        marked = db[MARKS].update_one({"_id": part}, {"$setOnInsert": {"loaded": True}}, upsert=True, session=session)
        if not marked.upserted_id:
            return
        for name, rows in documents.items():
            for first in range(0, len(rows), ROWS_AT_ONCE):
                db[name].insert_many(list(rows[first : first + ROWS_AT_ONCE]), ordered=False, session=session)

    in_transaction(db, write, seconds=SECONDS)
