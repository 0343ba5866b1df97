"""Comparing declared collections with those of the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from squinney.mongo.declared import Collection, Db, Index

DriftKind = Literal[
    "missing-collection", "missing-index", "different-index", "extra-index", "different-validator", "different-options"
]


@dataclass(frozen=True)
class Drift:
    """A difference between the declaration and the database."""

    collection: str
    kind: DriftKind
    what: str

    def __str__(self) -> str:
        return f"{self.collection}: {self.kind} {self.what}".rstrip()


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
    existing = {index["name"]: index for index in db[collection.name].list_indexes()}
    declared = {index.name: index for index in collection.indexes}
    for name, index in declared.items():
        if name not in existing:
            yield Drift(collection.name, "missing-index", name)
        elif _differs(index, existing[name]):
            yield Drift(collection.name, "different-index", name)
    shard_index = "_".join(f"{key}_{kind}" for key, kind in (collection.shard_key or {}).items())
    missing = [index for name, index in declared.items() if name not in existing]
    for name in sorted(existing.keys() - declared.keys() - {"_id_", shard_index}):
        blocks_missing = any(_excludes(existing[name], index) for index in missing)
        yield Drift(collection.name, "different-index" if blocks_missing else "extra-index", name)


def _excludes(existing: Mapping[str, Any], index: Index) -> bool:
    """Return whether an existing index prevents this one: it is the same under another name, or a second text index."""
    if any(kind == "text" for _, kind in index.keys):
        return "textIndexVersion" in existing
    return not _differs(replace(index, expire_after_seconds=existing.get("expireAfterSeconds")), existing)


def _differs(index: Index, existing: Mapping[str, Any]) -> bool:
    return (
        _keys_differ(index, existing)
        or index.unique != bool(existing.get("unique"))
        or index.sparse != bool(existing.get("sparse"))
        or (dict(index.partial) if index.partial else None) != existing.get("partialFilterExpression")
        or index.expire_after_seconds != existing.get("expireAfterSeconds")
        or not _holds(index.collation, existing.get("collation"))
        or (index.default_language or "english") != existing.get("default_language", "english")
        or (index.language_override or "language") != existing.get("language_override", "language")
    )


def _keys_differ(index: Index, existing: Mapping[str, Any]) -> bool:
    """Compare the keys in order. The server rewrites the keys of a text index, but lists its fields as weights."""
    text = [field for field, kind in index.keys if kind == "text"]
    if text:
        return dict.fromkeys(text, 1) | dict(index.weights or {}) != dict(existing.get("weights", {}))
    return list(index.keys) != list(existing["key"].items())


def _holds(declared: Any, existing: Any) -> bool:
    """Return whether the server has all declared values; it adds defaults for those that were left out."""
    if isinstance(declared, Mapping) and isinstance(existing, Mapping):
        return all(_holds(value, existing.get(name)) for name, value in declared.items())
    return bool(declared == existing)
