"""Collections as declared data: indexes, shard keys, validators and options, applied and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pymongo import IndexModel
from pymongo.database import Database
from pymongo.errors import OperationFailure

from squinney.errors import Conflict

Document = dict[str, Any]
Db = Database[Document]
Keys = Sequence[tuple[str, int | str]]

Direction = Literal["floor", "ceiling", "free"]
DriftKind = Literal[
    "missing-collection", "missing-index", "different-index", "extra-index", "different-validator", "different-options"
]

DUPLICATE_KEY = 11000
NAMESPACE_EXISTS = 48
_OTHER_OPTIONS = "an index has other options; `squinney indexes --rebuild` rebuilds it"
_ADVICE = {  # by the code of the server's error
    85: _OTHER_OPTIONS,
    86: _OTHER_OPTIONS,
    DUPLICATE_KEY: "documents have equal values under a unique index; change all but one of them",
}


@dataclass(frozen=True)
class Index:
    """One index. `expire_after_seconds` makes it a TTL index, `partial` is its filter, `weights` are for text.

    `default_language` is the language of a text index, whose stop words cannot be searched; `none` has no stop words.
    `language_override` names the field with the language of a document's text. By default that is `language`, and the
    server rejects documents whose `language` it does not know.
    """

    keys: Keys
    unique: bool = False
    sparse: bool = False
    partial: Mapping[str, Any] | None = None
    expire_after_seconds: int | None = None
    weights: Mapping[str, int] | None = None
    default_language: str | None = None
    language_override: str | None = None
    collation: Mapping[str, Any] | None = None
    why: str = ""

    @property
    def name(self) -> str:
        """The name that MongoDB gives it by default."""
        return "_".join(f"{field}_{direction}" for field, direction in self.keys)

    def model(self) -> IndexModel:
        """Return the driver's `IndexModel`."""
        options = {
            "unique": self.unique or None,
            "sparse": self.sparse or None,
            "partialFilterExpression": dict(self.partial) if self.partial else None,
            "expireAfterSeconds": self.expire_after_seconds,
            "weights": dict(self.weights) if self.weights else None,
            "default_language": self.default_language,
            "language_override": self.language_override,
            "collation": dict(self.collation) if self.collation else None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return IndexModel(list(self.keys), name=self.name, **given)


@dataclass(frozen=True)
class Collection:
    """One collection. Without a `shard_key` it is unsharded, and `unsharded` gives the reason.

    `escrow` declares the numbers that shared steps of `Transactions` may change, each with its direction.
    """

    name: str
    indexes: Sequence[Index] = ()
    shard_key: Mapping[str, int | str] | None = None
    unsharded: str = ""
    validator: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    escrow: Mapping[str, Direction] = field(default_factory=dict)


@dataclass(frozen=True)
class Drift:
    """A difference between the declaration and the database."""

    collection: str
    kind: DriftKind
    what: str

    def __str__(self) -> str:
        return f"{self.collection}: {self.kind} {self.what}".rstrip()


def apply(db: Db, collections: Iterable[Collection]) -> None:
    """Create missing collections, indexes and validators. Running it again changes nothing.

    Atomic: each collection and each index by itself.
    After a crash: run it again.
    Raises: `Conflict` if an index exists under the same name with other options: to rebuild it may take hours on live
    data, so only `rebuild` does; also if documents have equal values under a unique index.
    """
    existing = {info["name"]: info.get("options", {}) for info in db.list_collections()}
    for collection in collections:
        if collection.name not in existing:
            _create(db, collection)
        elif collection.validator and existing[collection.name].get("validator") != collection.validator:
            # Only if it differs: collMod waits for all running operations on the collection, and blocks new ones.
            db.command("collMod", collection.name, validator=dict(collection.validator))
        _create_indexes(db, collection)


def _create(db: Db, collection: Collection) -> None:
    options = dict(collection.options)
    if collection.validator:
        options["validator"] = dict(collection.validator)
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


def rebuild(db: Db, collections: Sequence[Collection]) -> list[Drift]:
    """Drop and recreate every index that has other options or another name than declared; return the dropped ones.

    Meanwhile queries that need the index are slow, and a unique index is not enforced: do it at a quiet time.

    Atomic: each index by itself.
    After a crash: run it again.
    """
    different = [drift for drift in check(db, collections) if drift.kind == "different-index"]
    for drift in different:
        db[drift.collection].drop_index(drift.what)
    apply(db, collections)
    return different


def check(db: Db, collections: Iterable[Collection]) -> list[Drift]:
    """Return the differences between the declarations and the database."""
    return [drift for collection in collections for drift in _check(db, collection)]


def _check(db: Db, collection: Collection) -> Iterator[Drift]:
    info = next(iter(db.list_collections(filter={"name": collection.name})), None)
    if info is None:
        yield Drift(collection.name, "missing-collection", "")
        return
    if collection.validator and info["options"].get("validator") != collection.validator:
        yield Drift(collection.name, "different-validator", "")
    for option, declared_value in collection.options.items():
        if not _holds(declared_value, info["options"].get(option)):
            yield Drift(collection.name, "different-options", option)
    found = {index["name"]: index for index in db[collection.name].list_indexes()}
    declared = {index.name: index for index in collection.indexes}
    for name, index in declared.items():
        if name not in found:
            yield Drift(collection.name, "missing-index", name)
        elif _differs(index, found[name]):
            yield Drift(collection.name, "different-index", name)
    shard_index = "_".join(f"{key}_{kind}" for key, kind in (collection.shard_key or {}).items())
    missing = [index for name, index in declared.items() if name not in found]
    for name in sorted(found.keys() - declared.keys() - {"_id_", shard_index}):
        blocks_missing = any(_excludes(found[name], index) for index in missing)
        yield Drift(collection.name, "different-index" if blocks_missing else "extra-index", name)


def _excludes(found: Mapping[str, Any], index: Index) -> bool:
    """Return whether an existing index prevents this one: it is the same under another name, or a second text index."""
    if any(kind == "text" for _, kind in index.keys):
        return "textIndexVersion" in found
    return not _differs(replace(index, expire_after_seconds=found.get("expireAfterSeconds")), found)


def _differs(index: Index, found: Mapping[str, Any]) -> bool:
    return (
        _keys_differ(index, found)
        or index.unique != bool(found.get("unique"))
        or index.sparse != bool(found.get("sparse"))
        or (dict(index.partial) if index.partial else None) != found.get("partialFilterExpression")
        or index.expire_after_seconds != found.get("expireAfterSeconds")
        or not _holds(index.collation, found.get("collation"))
        or (index.default_language or "english") != found.get("default_language", "english")
        or (index.language_override or "language") != found.get("language_override", "language")
    )


def _keys_differ(index: Index, found: Mapping[str, Any]) -> bool:
    """Compare the keys in order. The server rewrites the keys of a text index, but lists its fields as weights."""
    text = [field for field, kind in index.keys if kind == "text"]
    if text:
        return dict.fromkeys(text, 1) | dict(index.weights or {}) != dict(found.get("weights", {}))
    return list(index.keys) != list(found["key"].items())


def _holds(declared: Any, found: Any) -> bool:
    """Return whether the server has all declared values; it adds defaults for those that were left out."""
    if isinstance(declared, Mapping) and isinstance(found, Mapping):
        return all(_holds(value, found.get(name)) for name, value in declared.items())
    return bool(declared == found)
