"""Removes systems from a database: drops what Squinney made for them, and nothing that belongs to somebody else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from squinney.core import CORE_COLLECTIONS
from squinney.mongo.ownership import RECORDS, drop_record, read_ownership
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Collection, Db
from squinney.patterns import jobs
from squinney.service.town.loading import PARTS
from squinney.service.town.parts import MARKS
from squinney.system import System
from squinney.transactions import KEYS

ADOPTED = "it was taken over, with documents of somebody else"
FOREIGN = "Squinney did not make it"
Named = tuple[Db, str]  # a collection


@dataclass(frozen=True)
class Removal:
    """What removing systems does: the collections to drop, with their number of documents, and why others stay."""

    db: Db
    systems: Sequence[System]
    declared: Sequence[Collection]
    drops: Mapping[Named, int]
    stays: Mapping[str, str]
    everything: bool


def plan_removal(db: Db, systems: Sequence[System], *, everything: bool = False) -> Removal:
    """Find what removing these systems would drop; with `everything` also what all systems share.

    Raises: `Conflict` while a backup is being restored.
    """
    db = pinned(db)
    shared = CORE_COLLECTIONS if everything else []
    declared = [*(collection for system in systems for collection in system.collections), *shared]
    owned = read_ownership(db, declared)
    # guard: a collection that was taken over is not dropped
    adopted = [name for name, record in owned.records.items() if record["origin"] == "adopted"]
    stays = {**dict.fromkeys(owned.foreign, FOREIGN), **dict.fromkeys(adopted, ADOPTED)}
    # guard: a collection of somebody else is not dropped
    ours = [(db, made.name) for made in declared if owned.exists(made) and made.name not in stays]
    dropped = dict.fromkeys([*ours, *_parts(db, declared)])
    drops = {(of, name): of[name].estimated_document_count() for of, name in dropped}
    return Removal(db, systems, declared, drops, stays, everything)


def _parts(db: Db, declared: Sequence[Collection]) -> Iterator[Named]:
    """Yield recorded collections below the declared ones, such as those of single months, also in their databases."""
    below = re.compile("|".join(rf"{re.escape(whole.name)}\..+" for whole in declared))
    for name in _recorded(db):
        if below.fullmatch(name):
            yield db, name
    for whole in declared:
        if whole.parts_in:
            pattern = re.compile(re.escape(db.name) + whole.parts_in)
            for database in filter(pattern.fullmatch, db.client.list_database_names()):
                other = pinned(db.client[database])
                yield from ((other, name) for name in _recorded(other) if name == whole.name)


def _recorded(db: Db) -> list[str]:
    made = db[RECORDS].find({"prepared": True, "origin": {"$ne": "adopted"}}, {"_id": 1})
    existing = set(db.list_collection_names())
    return [record["_id"] for record in made if record["_id"] in existing]


def remove(removal: Removal) -> None:
    """Drop the collections, and what was recorded about them: keys, runs of the systems' jobs, loaded demo data.

    Atomic: each collection by itself.
    After a crash: run it again.
    """
    db = removal.db
    for of, name in removal.drops:
        of.drop_collection(name)
        drop_record(of, name)
    for collection in removal.declared:
        drop_record(db, collection.name)
    for of in {of for of, _ in removal.drops} | {db}:
        if of[RECORDS].find_one({}, {"_id": 1}) is None:
            of.drop_collection(RECORDS)
    if not removal.everything:
        _forget_work(db, removal)


def _forget_work(db: Db, removal: Removal) -> None:
    """Forget when the systems' jobs ran, which demo data is loaded, and the keys of operations on what is dropped."""
    names = {system.name for system in removal.systems}
    demos = [*names, *(part.name for part in PARTS if part.system in names)]
    ran = [job.name for system in removal.systems for job in system.jobs]
    dropped = [name for _, name in removal.drops]
    work = {
        jobs.NAME: {"_id": {"$in": ran}},
        MARKS: {"_id": {"$in": demos}},
        # guard: a key is forgotten with what its operation wrote
        KEYS: {"collections": {"$in": dropped}},
    }
    owned = read_ownership(db, [collection for collection in CORE_COLLECTIONS if collection.name in work])
    for name, forgotten in work.items():
        if name not in owned.foreign:
            db[name].delete_many(forgotten)
