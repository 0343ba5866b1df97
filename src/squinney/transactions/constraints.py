"""What the server itself asks of documents, and a two-phase run must know before it decides."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from squinney.mongo.schema import Db
from squinney.transactions.escrow import meet
from squinney.transactions.steps import Step, changed_paths

FRESH_SECONDS = 30  # how long an index or validator that is new may stay unknown
HARMLESS = {"bsonType", "minimum", "title", "description"}


@dataclass(frozen=True, slots=True)
class _Known:
    until: float
    unique: frozenset[str]  # every path that decides about a unique value, but for _id
    validator: Mapping[str, Any]


class Constraints:
    """Unique indexes and validators of a database's collections."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._known: dict[str, _Known] = {}

    def need_native(self, steps: Sequence[Step]) -> bool:
        """Whether the steps change or hand on unique values.

        In two phases such a value could be lost to another between the decision and the write, or be held by the very
        document that gives it up; in one transaction neither can happen.
        """
        return any(self._needs_native([step for step in steps if step.name == name]) for name in _names(steps))

    def _needs_native(self, steps: Sequence[Step]) -> bool:
        unique = self._of(steps[0].name).unique
        if any(meet(path, held) for step in steps for path in changed_paths(step.update) for held in unique):
            return True
        return bool(unique) and {"insert", "delete"} <= {step.does for step in steps}

    def established(self, steps: Sequence[Step]) -> list[Step]:
        """The steps, of which only those stay shared whose gives no validator can refuse."""
        return [replace(step, shared=False, may_overshoot=False) if self._may_refuse(step) else step for step in steps]

    def _may_refuse(self, step: Step) -> bool:
        if not step.shared:
            return False
        validator = self._of(step.name).validator
        return bool(validator) and not all(_tolerates(validator, path) for path in changed_paths(step.update))

    def _of(self, name: str) -> _Known:
        known = self._known.get(name)
        if known is None or known.until < time.monotonic():
            known = self._known[name] = self._read(name)
        return known

    def _read(self, name: str) -> _Known:
        found = next(iter(self._db.list_collections(filter={"name": name})), {})
        indexes = self._db[name].index_information().values() if found else ()
        unique = {
            path
            for index in indexes
            if index.get("unique")
            for path in (*(path for path, _ in index["key"]), *index.get("partialFilterExpression", {}))
        }
        validator = found.get("options", {}).get("validator", {})
        return _Known(time.monotonic() + FRESH_SECONDS, frozenset(unique), validator)


def _names(steps: Sequence[Step]) -> Iterable[str]:
    return dict.fromkeys(step.name for step in steps)


def _tolerates(validator: Mapping[str, Any], path: str) -> bool:
    """Whether it asks no more of the number than that it is a whole one and not too small, which the guards see to."""
    schema = validator.get("$jsonSchema", {})
    if len(validator) > 1 or not {"required", "properties", "bsonType", "title", "description"}.issuperset(schema):
        return False
    asked = schema.get("properties", {}).get(path.split(".")[0], {})
    kinds = asked.get("bsonType", "number")
    return HARMLESS.issuperset(asked) and (kinds == "number" or {"int", "long"}.issubset(kinds))
