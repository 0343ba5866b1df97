"""The server's own constraints on documents, which a two-phase run must know before it decides."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from squinney.mongo.schema import Collection, Db, Direction
from squinney.transactions.escrow import LARGEST_SHARED, guarded_paths, paths_overlap
from squinney.transactions.steps import Step, changed_paths

FRESH_SECONDS = 30  # how long a new index or validator may go unnoticed
HARMLESS = {"bsonType", "title", "description"}


@dataclass(frozen=True, slots=True)
class _Known:
    until: float
    plain: bool  # not capped, a time series, a view, or with a collation, by which different ids may be equal
    unique: frozenset[str]  # every path that a unique index depends on, except _id
    validator: Mapping[str, Any]


class Constraints:
    """The kinds, unique indexes and validators of a database's collections, cached for a while."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._known: dict[str, _Known] = {}

    def need_native(self, steps: Sequence[Step]) -> bool:
        """Return whether the steps change or pass on unique values, or use a collection in which the modes differ.

        In two phases another run could take such a value between the decision and the write, or the document that gives
        up the value could still hold it. Shared gives could together exceed what a validator allows. In one MongoDB
        transaction none of this can happen.
        """
        names = {step.name for step in steps}
        return any(self._needs_native(name, [step for step in steps if step.name == name]) for name in names)

    def _needs_native(self, name: str, steps: Sequence[Step]) -> bool:
        known = self._get(name)
        if not known.plain or any(_may_be_refused(step, known.validator) for step in steps):
            return True
        changed = {path for step in steps for path in changed_paths(step.update)}
        if any(paths_overlap(path, held) for path in changed for held in known.unique):
            return True
        return bool(known.unique) and {"insert", "delete"} <= {step.verb for step in steps}

    def _get(self, name: str) -> _Known:
        known = self._known.get(name)
        if known is None or known.until < time.monotonic():
            known = self._known[name] = self._read(name)
        return known

    def _read(self, name: str) -> _Known:
        found = next(iter(self._db.list_collections(filter={"name": name})), {})
        options = found.get("options", {})
        plain = found.get("type", "collection") == "collection" and not {"capped", "collation"} & options.keys()
        plain &= "minProperties" not in str(options)  # which would count the fields of the protocol
        indexes = self._db[name].index_information().values() if found and plain else ()
        unique = {
            path
            for index in indexes
            if index.get("unique")
            for path in (*(path for path, _ in index["key"]), *guarded_paths(index.get("partialFilterExpression", {})))
        }
        return _Known(time.monotonic() + FRESH_SECONDS, plain, frozenset(unique), options.get("validator", {}))


def _may_be_refused(step: Step, validator: Mapping[str, Any]) -> bool:
    """Return whether the server could reject a shared give or undo because of concurrent gives."""
    if not step.shared or not isinstance(step.collection, Collection):
        return False
    amounts = [n for update in (step.take, step.give) if update for n in update.get("$inc", {}).values()]
    if any(abs(amount) > LARGEST_SHARED for amount in amounts):
        return True
    directions = step.collection.escrow
    return not all(_tolerates(validator, path, directions[path]) for path in changed_paths(step.update))


def _tolerates(validator: Mapping[str, Any], path: str, direction: Direction) -> bool:
    """Return whether the validator requires only a whole number, and for a floor a minimum, which guards ensure."""
    schema = validator.get("$jsonSchema", {})
    if validator.keys() - {"$jsonSchema"} or schema.keys() - HARMLESS - {"required", "properties"}:
        return False
    asked = schema.get("properties", {}).get(path.split(".")[0], {})
    kinds = asked.get("bsonType", "number")
    harmless = HARMLESS | {"minimum"} if direction == "floor" else HARMLESS
    return harmless.issuperset(asked) and (kinds == "number" or {"int", "long"}.issubset(kinds))
