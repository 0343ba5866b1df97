"""The writes of a line with the plain driver: the ceiling for any world with the same durability.

A line that takes or drops a thing changes the thing, the character and the room, and inserts an event: three updates by
id and an insert, journaled by a majority before the player gets the result. Here three threads send these writes for
several lines in one transaction, without guards, plans, lists, command parsing or delivery of events.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from bson import ObjectId
from pymongo import InsertOne, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from bench import report
from bench.harness import Contender, compare
from squinney.mongo.schema import Db

LINES = (1, 8, 32)
THREADS = 3
CHANGED = ("game.characters", "game.items", "game.locations")
MAJORITY = WriteConcern("majority", j=True)


def measured(db: Db, *, rounds: int, seconds: float) -> str:
    """Return the part of the page about the ceiling."""
    ids = [
        [document["_id"] for document in db[name].find({}, {"_id": 1}).limit(THREADS * max(LINES))] for name in CHANGED
    ]
    contenders = [Contender(f"{lines}", _work(db, ids, lines)) for lines in LINES]
    series = compare(contenders, threads=THREADS, rounds=rounds, seconds=seconds)
    rows = [[contender.name, f"{contender.rate * lines:,.0f}"] for contender, lines in zip(series, LINES, strict=True)]
    return (
        "## The ceiling: the writes of a line with the plain driver\n\n"
        "Three updates by id and an insert for each line, journaled by a majority, from three threads; without guards, "
        "plans, lists or delivery of events.\n\n" + report.table(["lines in a transaction", "lines/s"], rows)
    )


def _work(db: Db, ids: list[list[str]], lines: int) -> Callable[[int], None]:
    def work(thread: int) -> None:
        with db.client.start_session() as session:
            session.with_transaction(partial(send, thread), ReadConcern("snapshot"), MAJORITY)

    def send(thread: int, session: ClientSession) -> None:
        first = thread * max(LINES)
        for name, own in zip(CHANGED, ids, strict=True):
            changes = [
                UpdateOne({"_id": document_id}, {"$inc": {"version": 1}}) for document_id in own[first : first + lines]
            ]
            db[name].bulk_write(changes, session=session)
        db["game.events"].bulk_write([InsertOne(_event(own[first])) for _ in range(lines)], session=session)

    return work


def _event(location_id: str) -> dict[str, object]:
    names = {"location_id": location_id, "character_id": "c", "name": "player", "text": "player takes lamp"}
    return {"_id": f"{ObjectId()}", "kind": "took", **names, "at": datetime.now(UTC)}
