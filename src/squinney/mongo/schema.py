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

INDEX_OPTIONS_CONFLICT = (85, 86)
DUPLICATE_KEY = 11000
NAMESPACE_EXISTS = 48


@dataclass(frozen=True)
class Index:
    """One index. `expire_after_seconds` makes it a TTL index; `partial` its filter; `weights` for text.

    `default_language` is that of a text index: its stop words are not found, and `none` has none.
    `language_override` is the field in which the server looks for the language of a document's text. Without it that is
    `language`, and the server refuses documents that have there what is no language of its own.
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
        """The name MongoDB would give it."""
        return "_".join(f"{field}_{direction}" for field, direction in self.keys)

    def model(self) -> IndexModel:
        """The driver's form of it."""
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
    """One collection. `shard_key` None means unsharded, and `unsharded` then says why.

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
    """A difference between what is declared and what the database has."""

    collection: str
    kind: DriftKind
    what: str

    def __str__(self) -> str:
        return f"{self.collection}: {self.kind} {self.what}".rstrip()


def apply(db: Db, collections: Iterable[Collection]) -> None:
    """Create what is missing: collections, indexes, validators. Running it again changes nothing.

    An index that exists under the same name with other options is not rebuilt: that may take hours on live data, so it
    raises `Conflict` and says which; `rebuild` is for that. So does a unique index over documents that are alike.

    Atomic: each collection and each index by itself.
    After a crash: run it again.
    Raises: `Conflict`.
    """
    existing = {info["name"]: info.get("options", {}) for info in db.list_collections()}
    for collection in collections:
        if collection.name not in existing:
            _create(db, collection)
        elif collection.validator and existing[collection.name].get("validator") != collection.validator:
            # Only where it differs: collMod waits for everything that runs on the collection, and holds up the rest.
            db.command("collMod", collection.name, validator=dict(collection.validator))
        _create_indexes(db, collection)


def _create(db: Db, collection: Collection) -> None:
    options = dict(collection.options)
    if collection.validator:
        options["validator"] = dict(collection.validator)
    try:
        db.create_collection(collection.name, check_exists=False, **options)
    except OperationFailure as error:
        if error.code != NAMESPACE_EXISTS:  # another process was faster
            raise


def _create_indexes(db: Db, collection: Collection) -> None:
    if not collection.indexes:
        return
    try:
        db[collection.name].create_indexes([index.model() for index in collection.indexes])
    except OperationFailure as error:
        advice = {
            **dict.fromkeys(
                INDEX_OPTIONS_CONFLICT, "an index has other options; `squinney indexes --rebuild` makes it anew"
            ),
            DUPLICATE_KEY: "a unique index meets documents that are alike; change all but one of them",
        }.get(error.code or 0)
        if advice is None:
            raise
        reason = (error.details or {}).get("errmsg", "")
        raise Conflict(f"{collection.name}: {advice}: {reason}", collection=collection.name) from error


def rebuild(db: Db, collections: Sequence[Collection]) -> list[Drift]:
    """Drop every index that exists with other options or under another name than declared, and make it anew; returns
    which were dropped.

    Until it is made, what needs it is slow, and a unique one does not hold: do it when few are about.

    Atomic: each index by itself.
    After a crash: run it again.
    """
    different = [drift for drift in check(db, collections) if drift.kind == "different-index"]
    for drift in different:
        db[drift.collection].drop_index(drift.what)
    apply(db, collections)
    return different


def check(db: Db, collections: Iterable[Collection]) -> list[Drift]:
    """How the database differs from what is declared; empty where it does not."""
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
        in_the_way = any(_excludes(found[name], index) for index in missing)
        yield Drift(collection.name, "different-index" if in_the_way else "extra-index", name)


def _excludes(found: Mapping[str, Any], index: Index) -> bool:
    """Whether the server refuses the index beside the one it has: the same under another name, or a second of texts."""
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
    """Order counts. The server rewrites a text index's key, but lists its fields with their weights."""
    text = [field for field, kind in index.keys if kind == "text"]
    if text:
        return dict.fromkeys(text, 1) | dict(index.weights or {}) != dict(found.get("weights", {}))
    return list(index.keys) != list(found["key"].items())


def _holds(declared: Any, found: Any) -> bool:
    """Whether the server has what is declared; it adds everything that was left out."""
    if isinstance(declared, Mapping) and isinstance(found, Mapping):
        return all(_holds(value, found.get(name)) for name, value in declared.items())
    return bool(declared == found)
