"""Loads the town: once per database, with its progress, and from where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from squinney import assembly
from squinney.clock import utcnow
from squinney.errors import Conflict
from squinney.mongo.schema import Db
from squinney.service.town import adverts, bank, magazine, orders, people, visits
from squinney.service.town.parts import MARKS, Town, TownPart
from squinney.service.town.reset import finish_reset, is_resetting
from squinney.system import Assembled
from squinney.transactions import Tries

SECONDS = 120.0
YEAR = "town"
PARTS = (
    TownPart("town: shop", "commerce", "the shop, its records and orders", orders.load),
    TownPart("town: bank", "ledger", "the bank", bank.load),
    TownPart("town: people", "social", "the people and their posts", people.load),
    TownPart("town: magazine", "content", "the magazine and its pictures", magazine.load),
    TownPart("town: visits", "analytics", "a year of visits", visits.load),
    TownPart("town: ads", "ads", "the advertisers", adverts.load),
)
Progress = Callable[[str, int, int], None]


def load_town(
    systems: Assembled, *, now: datetime | None = None, progress: Progress = lambda title, done, total: None
) -> None:
    """Load the parts of the town that are not loaded yet, and the demo of each other system.

    If not all systems of the town are chosen, each has its own small demo.

    `progress` is called with the title of the next part, the number of loaded parts, and the number of all parts.

    Atomic: as each part.
    After a crash: the next call continues, with the dates of the first one.
    Raises: `Busy` if other operations block it for two minutes.
    """
    if is_resetting(systems.db):
        finish_reset(systems)
    town = Town(systems, _end_of_year(systems.db, now))
    missing = [part for part in PARTS if _is_missing(systems.db, part)]
    is_whole = all(part.system in systems.services for part in PARTS)
    # The parts link each other, so without one of the systems each has the small demo of its own.
    wanted = missing if is_whole else []
    loaded = {part.system for part in PARTS if is_whole or part not in missing}
    others = [system for system in systems.systems if system.name not in loaded]
    for done, part in enumerate(wanted):
        progress(part.title, done, len(wanted) + 1)
        _load(town, part)
    progress("the world" if is_whole else "small samples", len(wanted), len(wanted) + 1)
    assembly.load_demo(systems.db, others)
    progress("", len(wanted) + 1, len(wanted) + 1)


def _is_missing(db: Db, part: TownPart) -> bool:
    # A database of an older version has the small demo of the system instead.
    return db[MARKS].find_one({"_id": {"$in": [part.name, part.system]}}) is None


def _end_of_year(db: Db, now: datetime | None) -> datetime:
    """Return the time at which the demo's year ends: that of the first call, so that a second one continues it."""
    hour = (now or utcnow()).replace(minute=0, second=0, microsecond=0)
    change = {"$setOnInsert": {"now": hour}}
    mark: Any = db[MARKS].find_one_and_update({"_id": YEAR}, change, upsert=True, return_document=True)
    return cast(datetime, mark["now"])


def _load(town: Town, part: TownPart) -> None:
    tries = Tries(SECONDS, what="the demo data")
    while _is_missing(town.db, part):
        try:
            part.load(town)
        except Conflict as error:  # another process loads it too: try again, and skip what that one has loaded
            tries.pause(error)
        else:
            town.db[MARKS].update_one({"_id": part.name}, {"$set": {"loaded": True}}, upsert=True)


def is_loaded(systems: Assembled) -> bool:
    """Return whether there is nothing to load."""
    db = systems.db
    marks = {mark["_id"] for mark in db[MARKS].find({"loaded": True})}
    names = {part.system: part.name for part in PARTS}
    return not is_resetting(db) and all(marks & {system.name, names.get(system.name)} for system in systems.systems)
