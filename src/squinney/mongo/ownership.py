"""Which collections are ours: `squinney.schema` records what `apply` made, and everything else is left alone."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pymongo import ReadPreference, ReplaceOne, UpdateOne
from pymongo.collection import Collection as Stored
from pymongo.errors import BulkWriteError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from squinney import __version__
from squinney.errors import Conflict, FormerNames, Invalid, NotOurs
from squinney.mongo.declared import Collection, Db, Document
from squinney.mongo.drift import check

RECORDS = "squinney.schema"
RESTORING = "restoring"  # a record of this name tells that a backup is being restored
# guard: few indexes that are alike by chance recognise nothing
MIN_MATCHES = 3  # distinctive marks, in all collections together; fewer may be alike by chance
DIFFERS_BY_CASE = 13297
Origin = Literal["created", "recognised", "adopted"]


@dataclass
class Ownership:
    """What a database has of some declared collections. `records` is by name, as stored in `squinney.schema`."""

    db: Db
    declared: Sequence[Collection]
    options: Mapping[str, Mapping[str, Any]]
    records: dict[str, Document]
    recognised: Names[str] = ()
    foreign: Sequence[str] = ()
    adopted: Names[str] = ()
    unusable: Mapping[str, str] = field(default_factory=dict)  # what these foreign ones are, such as "a view"

    def exists(self, collection: Collection) -> bool:
        """Return whether the database had the collection when this was read."""
        return collection.name in self.options

    def record_intent(self) -> None:
        """Record what is taken over, and what is about to be created.

        If a process crashes right after it created a collection, the record tells that the collection is ours.
        """
        taken_over = [
            collection
            for collection in self.declared
            if collection.name in self.recognised or collection.name in self.adopted
        ]
        self._replace([self._record(collection, prepared=True) for collection in taken_over])
        new = [
            self._record(collection, prepared=False)
            for collection in self.declared
            if collection.name not in self.records
        ]
        if new:  # only inserted: another process may have finished meanwhile, and its record says so
            self._write([UpdateOne({"_id": record["_id"]}, {"$setOnInsert": record}, upsert=True) for record in new])

    def record_done(self) -> None:
        """Record the indexes and validators that exist now."""
        self._replace([self._record(collection, prepared=True) for collection in self.declared])

    def is_prepared(self, collection: Collection) -> bool:
        """Return whether all indexes and the validator were once there; nobody needs to look at them again."""
        return collection.name not in self.adopted and self.records.get(collection.name, {}).get("prepared", False)

    def made_indexes(self, name: str) -> Names[str]:
        """Return the names of the collection's indexes that we made, or that came with a collection we took over."""
        if name in self.recognised or name in self.adopted:
            return [
                index.name for collection in self.declared if collection.name == name for index in collection.indexes
            ]
        made: list[str] = self.records.get(name, {}).get("indexes", [])
        return made

    def _record(self, collection: Collection, *, prepared: bool) -> Document:
        name = collection.name
        known = self.records.get(name, {})
        indexes = set(known.get("indexes", ()))
        if prepared:  # an index that is not created yet may turn out to be in the way of one of somebody else
            indexes |= {index.name for index in collection.indexes}
        return {
            "_id": name,
            "origin": known.get("origin", self._origin(name)),
            "prepared": prepared,
            "indexes": sorted(indexes),
            "validator": _plain(collection.validator),
            "version": __version__,
        }

    def _origin(self, name: str) -> Origin:
        if name in self.adopted:
            return "adopted"
        return "recognised" if name in self.recognised else "created"

    def _replace(self, records: Sequence[Document]) -> None:
        changed = [record for record in records if self.records.get(record["_id"]) != record]
        if changed:
            self._write([ReplaceOne({"_id": record["_id"]}, record, upsert=True) for record in changed])
        self.records.update({record["_id"]: record for record in changed})

    def _write(self, writes: Sequence[UpdateOne | ReplaceOne[Document]]) -> None:
        try:
            _stored(self.db).bulk_write(writes)
        except BulkWriteError as error:
            if any(failed["code"] == DIFFERS_BY_CASE for failed in error.details.get("writeErrors", ())):
                message = f"the server has a database whose name differs from {self.db.name} only by upper case"
                raise Invalid(f"{message}; use its name, or another one", field="database") from error
            raise


def read_ownership(db: Db, collections: Iterable[Collection], adopt: Iterable[str] = ()) -> Ownership:
    """Read which of the collections exist, and which of these are somebody else's, except those to `adopt`.

    Raises: `Invalid` if a name to adopt is not declared; `Conflict` while a backup is being restored.
    """
    declared, adopted = list(collections), frozenset(adopt)
    names = {collection.name for collection in declared}
    if unknown := sorted(adopted - names):
        raise Invalid(f"adopt: {', '.join(unknown)} is not a collection that is prepared here", field="adopt")
    # Before the records: each collection that another process creates meanwhile was recorded before it was created.
    infos = {info["name"]: info for info in db.list_collections() if info["name"] in {*names, RECORDS}}
    unusable = {name: what for name, info in infos.items() if (what := _unusable(info, adopted))}
    if RECORDS in unusable:
        raise _foreign_records(db)
    options = {name: info.get("options", {}) for name, info in infos.items()}
    records = {record["_id"]: record for record in _stored(db).find({"_id": {"$in": [*sorted(names), RESTORING]}})}
    # guard: records of somebody else are no records
    if any("prepared" not in record for name, record in records.items() if name != RESTORING):
        raise _foreign_records(db)
    # guard: a database that is half restored is not used
    if RESTORING in records:
        raise Conflict(
            f"the database {db.name} is being restored from a backup; if `squinney restore` was ended, run it again"
        )
    there = options.keys() - unusable.keys()
    existing = [collection for collection in declared if collection.name in there - adopted]
    unrecorded = [collection for collection in existing if not _is_recorded(db, collection, records)]
    owned = Ownership(db, declared, options, records, adopted=adopted & there)
    recognised = _recognised(db, owned, unrecorded)
    not_ours = {collection.name for collection in unrecorded if collection.name not in recognised} | unusable.keys()
    foreign = [name for name in dict.fromkeys(collection.name for collection in declared) if name in not_ours]
    return replace(owned, recognised=recognised, foreign=foreign, unusable=unusable)


def _unusable(info: Mapping[str, Any], adopted: Names[str]) -> str:
    """Return what makes it impossible to keep our documents there, whoever made it; else an empty text."""
    # guard: a view or a time series is never used, even if it is recorded
    if info["type"] != "collection":
        return "a view" if info["type"] == "view" else "a time series"
    # guard: a capped collection is not taken over, since it would forget documents
    return "a capped collection" if info["name"] in adopted and info.get("options", {}).get("capped") else ""


def _foreign_records(db: Db) -> NotOurs:
    message = f"the database {db.name} has a {RECORDS} that Squinney did not make; use another database"
    return NotOurs(message, collections=[RECORDS])


def former(db: Db, collections: Iterable[Collection]) -> Ownership | None:
    """Return what an older version made, declared under the former names; None without such collections."""
    declared, existing = list(collections), set(db.list_collection_names())
    old = [_as_it_was(collection) if collection.formerly in existing else collection for collection in declared]
    if old == declared:
        return None
    owned = read_ownership(db, old)
    ours = [
        collection
        for collection in old
        if collection.name == collection.formerly and collection.name not in owned.foreign
    ]
    return replace(owned, declared=ours) if ours else None


def _as_it_was(collection: Collection) -> Collection:
    # guard: a collection is recognised by the indexes that it had under its former name
    if collection.former_indexes:
        return replace(collection, name=collection.formerly, indexes=collection.former_indexes, validator=None)
    return replace(collection, name=collection.formerly)


def require_ours(db: Db, collections: Iterable[Collection], adopt: Iterable[str] = ()) -> Ownership:
    """Refuse collections that somebody else made, or an older version, before anything is changed.

    Raises: `NotOurs` with the names of all of them; `FormerNames`; `Invalid` if a name to adopt is not declared.
    """
    declared = list(collections)
    if old := former(db, declared):
        names = ", ".join(collection.name for collection in old.declared)
        raise FormerNames(
            f"an older version made collections of the database {db.name} under other names: {names}; "
            "end its processes, then run `squinney migrate`, which renames them"
        )
    owned = read_ownership(db, declared, adopt)
    if owned.unusable:
        which = ", ".join(f"{name} is {what}" for name, what in owned.unusable.items())
        message = f"in the database {db.name}, {which}, which cannot keep documents; use another database"
        raise NotOurs(message, collections=list(owned.foreign))
    # guard: collections of somebody else are refused
    if owned.foreign:
        options = " ".join(f"--adopt {name}" for name in owned.foreign)
        raise NotOurs(
            f"the database {db.name} has collections that Squinney did not make: {', '.join(owned.foreign)}; "
            f"use another database, or let Squinney add its indexes and validators and change the documents: {options}",
            collections=list(owned.foreign),
        )
    return owned


def is_prepared(db: Db, name: str) -> bool:
    """Return whether we prepared or took over this collection."""
    return _stored(db).find_one({"_id": name, "prepared": True}) is not None


def copy_record(db: Db, name: str, to: Db, new: str) -> None:
    """Record that the collection `new` of the database `to` is ours, as `name` is."""
    record = _stored(db).find_one({"_id": name}, {"_id": 0})
    _stored(to).update_one({"_id": new}, {"$setOnInsert": record}, upsert=True)


def drop_record(db: Db, name: str) -> None:
    """Forget a collection that no longer exists."""
    _stored(db).delete_one({"_id": name})


def _is_recorded(db: Db, collection: Collection, records: Mapping[str, Document]) -> bool:
    record = records.get(collection.name)
    if record is None or record["prepared"]:
        return record is not None
    # Recorded, but perhaps not created: the process may have crashed in between, and somebody else may have created it.
    # guard: a record without its collection does not make a later one ours
    if db[collection.name].find_one({}, {"_id": 1}) is None:
        return True
    return is_prepared(db, collection.name)


def _recognised(db: Db, owned: Ownership, unrecorded: Sequence[Collection]) -> Names[str]:
    """Return those that an older Squinney made, which kept no records.

    Two thirds of the declaration are enough, so that a version that declares one index more recognises them too.
    Where nothing is declared, the collection is recognised by the others, if most of the declared ones are there.
    """
    missing = _missing(db, unrecorded)
    marks = {collection.name: _marks(collection) for collection in unrecorded}
    alike = {name for name, own in marks.items() if own and 3 * len(own - missing[name]) >= 2 * len(own)}
    evidence = sum(
        len(_distinctive(collection) - missing[collection.name])
        for collection in unrecorded
        if collection.name in alike
    )
    if evidence < MIN_MATCHES and not (alike and _recognised_before(db)):
        return ()
    marked = [collection for collection in owned.declared if _marks(collection)]
    known = [collection for collection in marked if collection.name in alike or collection.name in owned.records]
    # guard: a few collections of ours make no others ours
    most_are_there = 2 * len(known) >= len(marked)
    return alike | ({name for name, own in marks.items() if not own} if most_are_there else set())


def _missing(db: Db, collections: Sequence[Collection]) -> dict[str, set[str]]:
    """Return the marks that each stored collection does not have."""
    missing: dict[str, set[str]] = {collection.name: set() for collection in collections}
    for drift in check(db, collections):
        missing[drift.collection].add("validator" if drift.kind == "different-validator" else drift.what)
    return missing


def _marks(collection: Collection) -> set[str]:
    """Return what a stored collection can be recognised by."""
    return _distinctive(collection) | {index.name for index in collection.indexes}


def _distinctive(collection: Collection) -> set[str]:
    """Return the marks that no application has by chance; an index of one field, such as `expires_at`, is none."""
    # guard: an index that anybody may have recognises nothing
    indexes = {index.name for index in collection.indexes if len(index.keys) > 1}
    return indexes | {*collection.options} | ({"validator"} if collection.validator else set())


def _recognised_before(db: Db) -> bool:
    """Return whether this is known to be a database of an older version, of which a further system is prepared."""
    return _stored(db).find_one({"origin": "recognised"}, {"_id": 1}) is not None


def _stored(db: Db) -> Stored[Document]:
    """Return the records, with the guarantees that the order of the writes needs, whatever the caller's client has."""
    return db.get_collection(
        RECORDS,
        codec_options=db.codec_options.with_options(document_class=dict),
        read_preference=ReadPreference.PRIMARY,
        read_concern=ReadConcern("majority"),
        write_concern=WriteConcern("majority"),
    )


def _plain(value: Any) -> Any:
    """Return the value as the server returns it: mappings as dicts, sequences as lists."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
