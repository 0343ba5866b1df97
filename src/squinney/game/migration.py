"""What `squinney migrate` upgrades: typed documents of older versions, and names that were reserved without a shape."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

from pymongo import UpdateOne

from squinney.game import queries
from squinney.game.character_names import shape_key
from squinney.game.documents import CHARACTERS, ITEMS, NAMES
from squinney.game.kinds import CHARACTER_TYPES, ITEM_TYPES
from squinney.mongo.schema import Db, Document
from squinney.patterns.batches import Batches, Progress
from squinney.patterns.migrations import Migration


class ShapesOfNames(Batches):
    """Reserves the shapes of names that older versions reserved, so that no new name looks like them.

    Of two old names with one shape, both stay, and one of them has the shape.
    """

    def __init__(self, db: Db) -> None:
        super().__init__(db[NAMES], {"shape": 1})
        self._db = db

    def run(self, *, stop: Event | None = None, report: Callable[[Progress], None] = lambda _: None) -> Progress:
        """Reserve the rest of the shapes, as `Migration.run` does.

        Atomic: each shape by itself.
        After a crash: some shapes are reserved and others are not; run it again.
        Raises: `Unavailable` if MongoDB cannot be reached; run it again.
        """
        return self._run_batches(stop, report)

    def _upgrade(self, ids: list[Any]) -> tuple[int, list[Document]]:
        reserved = queries.SOME_NAMES.find(self._db, names=[key for key in ids if not str(key).startswith(" ")])
        character_ids = sorted({name["character_id"] for name in reserved})
        fields = {"name": 1}
        people = queries.SOME_CHARACTERS.find(self._db, character_ids=character_ids, projection=fields)
        # guard: a shape that is reserved stays with its character
        writes = [_reserve("$setOnInsert", shape_key(person["name"]), person["_id"]) for person in people]
        return (self._collection.bulk_write(writes, ordered=False).upserted_count if writes else 0), []


def _reserve(operator: str, key: str, character_id: str) -> UpdateOne:
    return UpdateOne({"_id": key}, {operator: {"character_id": character_id}}, upsert=True)


def migrations(db: Db) -> list[Batches]:
    """Return the migrations that `squinney migrate` runs in the background."""
    return [Migration(db[CHARACTERS], CHARACTER_TYPES), Migration(db[ITEMS], ITEM_TYPES), ShapesOfNames(db)]
