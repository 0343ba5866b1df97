"""Collections as declared data: indexes, shard keys, validators and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo import IndexModel
from pymongo.database import Database

Document = dict[str, Any]
Db = Database[Document]
Keys = Sequence[tuple[str, int | str]]


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
    compressor: str = ""
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
            "storageEngine": compressed_by(self.compressor) if self.compressor else None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return IndexModel(list(self.keys), name=self.name, **given)


@dataclass(frozen=True)
class Collection:
    """One collection. Without a `shard_key` it is unsharded, and `unsharded` gives the reason.

    `formerly` is the name that it had in older databases; `squinney migrate` renames it, and drops its `outdated`
    indexes. It is recognised by its `former_indexes`, if it had others than now. `names_in` is a field of its documents
    that holds the name of a collection, and is then changed too. `parts_in` is a pattern of what follows the database's
    name in the names of other databases, in which parts of the collection have the same name. The `compressor` counts
    when the collection is created; an older collection keeps its own.
    """

    name: str
    indexes: Sequence[Index] = ()
    shard_key: Mapping[str, int | str] | None = None
    unsharded: str = ""
    formerly: str = ""
    former_indexes: Sequence[Index] = ()
    outdated: Sequence[str] = ()
    names_in: str = ""
    parts_in: str = ""
    validator: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    compressor: str = ""


def compressed_by(compressor: str) -> Document:
    """Return the option with which the server compresses a collection or an index."""
    return {"wiredTiger": {"configString": f"block_compressor={compressor}"}}
