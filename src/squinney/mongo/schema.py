"""Creates declared collections with their indexes and validators, in databases that may hold other collections too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pymongo.errors import OperationFailure

from squinney.errors import Conflict, NotPrepared
from squinney.mongo.declared import Collection, Db, Document, Index, Keys, compressed_by
from squinney.mongo.drift import Drift, DriftKind, check
from squinney.mongo.ownership import Ownership, require_ours

__all__ = [
    "DUPLICATE_KEY",
    "Collection",
    "Db",
    "Document",
    "Drift",
    "DriftKind",
    "Index",
    "Keys",
    "apply",
    "check",
    "create_missing",
    "rebuild",
    "require_ours",
    "require_usable",
]

DUPLICATE_KEY = 11000
NAMESPACE_EXISTS = 48
MAX_NAMED = 3  # in one sentence
_OTHER_OPTIONS = "an index has other options; `squinney indexes --rebuild` rebuilds it"
_ADVICE = {  # by the code of the server's error
    85: _OTHER_OPTIONS,
    86: _OTHER_OPTIONS,
    DUPLICATE_KEY: "documents have equal values under a unique index; change all but one of them",
}


def apply(db: Db, collections: Iterable[Collection], *, adopt: Iterable[str] = ()) -> None:
    """Create missing collections, indexes and validators. Running it again changes nothing.

    Collections that somebody else made are refused before anything is changed, except those that `adopt` names.

    Atomic: each collection and each index by itself.
    After a crash: run it again.
    Raises: `NotOurs`; `Conflict` if an index exists under the same name with other options: to rebuild it may take
    hours on live data, so only `rebuild` does; also if documents have equal values under a unique index.
    """
    _apply(require_ours(db, collections, adopt))


def create_missing(db: Db, collections: Iterable[Collection], *, adopt: Iterable[str] = ()) -> None:
    """Create missing collections only: quicker than `apply`, which also compares the indexes of existing ones.

    Atomic: each collection and each index by itself.
    After a crash: run it again.
    Raises: `NotOurs`, before anything is changed; `Conflict` like `apply`.
    """
    owned = require_ours(db, collections, adopt)
    owned.record_intent()
    unfinished = [
        collection for collection in owned.declared if not owned.exists(collection) or not owned.is_prepared(collection)
    ]
    _apply(replace(owned, declared=unfinished))


def require_usable(db: Db, collections: Iterable[Collection]) -> list[Drift]:
    """Change nothing, and return what differs from the declarations without harm: what is slower, or expires later.

    A collection that is missing would be created by the first write without its options, and without a unique index
    duplicates would go unnoticed.

    Raises: `NotPrepared` if one of them is missing; `NotOurs`; `FormerNames`.
    """
    declared = list(collections)
    require_ours(db, declared)
    unique = {(collection.name, index.name) for collection in declared for index in collection.indexes if index.unique}
    drifts = [drift for drift in check(db, declared) if drift.kind != "extra-index"]
    needed = [
        str(drift) for drift in drifts if drift.kind == "missing-collection" or (drift.collection, drift.what) in unique
    ]
    # guard: nothing is served without collections and unique indexes
    if needed:
        named = "; ".join(needed[:MAX_NAMED]) + (f"; {len(needed)} in all" if len(needed) > MAX_NAMED else "")
        raise NotPrepared(f"the database {db.name} is not prepared: {named}; run `squinney indexes --apply` first")
    return drifts


def _apply(owned: Ownership) -> None:
    db = owned.db
    owned.record_intent()
    for collection in owned.declared:
        if not owned.exists(collection):
            _create(db, collection)
        elif collection.validator and owned.options[collection.name].get("validator") != collection.validator:
            # Only if it differs: collMod waits for all running operations on the collection, and blocks new ones.
            db.command("collMod", collection.name, validator=dict(collection.validator))
        _create_indexes(db, collection)
    owned.record_done()


def _create(db: Db, collection: Collection) -> None:
    options = dict(collection.options)
    if collection.validator:
        options["validator"] = dict(collection.validator)
    if collection.compressor:
        options["storageEngine"] = compressed_by(collection.compressor)
    try:
        db.create_collection(collection.name, check_exists=False, **options)
    except OperationFailure as error:
        if error.code != NAMESPACE_EXISTS:  # another process created it concurrently
            raise


def _create_indexes(db: Db, collection: Collection) -> None:
    if not collection.indexes:
        return
    try:
        db[collection.name].create_indexes([index.model() for index in collection.indexes])
    except OperationFailure as error:
        if error.code not in _ADVICE:
            raise
        reason = (error.details or {}).get("errmsg", "")
        message = f"{collection.name}: {_ADVICE[error.code]}: {reason}"
        raise Conflict(message, collection=collection.name) from error


def rebuild(db: Db, collections: Sequence[Collection], *, adopt: Iterable[str] = ()) -> list[Drift]:
    """Drop and recreate every index of ours that has other options or another name than declared; return the dropped.

    Indexes that somebody else added are left alone. Meanwhile queries that need the index are slow, and a unique index
    is not enforced: do it at a quiet time.

    Atomic: each index by itself.
    After a crash: run it again.
    Raises: `NotOurs` for a collection that somebody else made, and `Conflict` for an index of somebody else in the way
    of a declared one, before anything is changed.
    """
    owned = require_ours(db, collections, adopt)
    different = [drift for drift in check(db, collections) if drift.kind == "different-index"]
    for drift in different:
        _require_our_index(owned, drift)
    owned.record_intent()  # else a crash after the first drop could leave too little to recognise an old collection
    for drift in different:
        db[drift.collection].drop_index(drift.what)
    apply(db, collections)
    return different


def _require_our_index(owned: Ownership, drift: Drift) -> None:
    name = drift.collection
    # guard: a rebuild drops no index of somebody else
    if drift.what in owned.made_indexes(name):
        return
    message = f"{name}: its index {drift.what} is in the way of a declared one and was not made by Squinney"
    raise Conflict(f"{message}: drop it yourself, or give it other keys", collection=name, index=drift.what)
