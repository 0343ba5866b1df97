"""Free properties as name-value pairs under one index.

`{"Seek Time": "5ms"}` is stored as `[{"n": "Seek Time", "v": "5ms"}]`. One index on `(properties.n, properties.v)`
then serves equality and range queries on every property, also on future ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from squinney import checks
from squinney.errors import Invalid
from squinney.mongo.schema import Document, Index

Value = str | int | float | bool | datetime

MAX_PAIRS = 200
MAX_NAME_LENGTH = 200
MAX_TEXT_LENGTH = 1000


@dataclass(frozen=True)
class Range:
    """A range of values of one type: a lower bound (`at_least` or `over`), an upper (`at_most` or `under`), or both."""

    at_least: Value | None = None
    over: Value | None = None
    at_most: Value | None = None
    under: Value | None = None

    def operators(self) -> Document:
        """Return the bounds as query operators."""
        bounds = {"$gte": self.at_least, "$gt": self.over, "$lte": self.at_most, "$lt": self.under}
        return {operator: bound for operator, bound in bounds.items() if bound is not None}


def pairs(properties: Mapping[str, Value | Sequence[Value]], *, field: str = "properties") -> list[Document]:
    """Return the stored form, sorted by name; a list of values becomes one pair per distinct value.

    Raises: `Invalid` naming the property, for a bad name, an unsupported value, or more than 200 pairs.
    """
    if not isinstance(properties, Mapping):
        raise Invalid(f"{field} must be a mapping of names to values", field=field)
    for name in properties:
        _check_name(name, field)
    stored = [
        {"n": name, "v": _check_value(value, f"{field}.{name}")}
        for name in sorted(properties)
        for value in _as_list(properties[name])
    ]
    if len(stored) > MAX_PAIRS:
        raise Invalid(f"{field} must have at most {MAX_PAIRS} values", field=field, limit=MAX_PAIRS)
    return list({(pair["n"], isinstance(pair["v"], bool), pair["v"]): pair for pair in stored}.values())


def mapping(stored: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the properties that `pairs` stored; a name with several values gets a list."""
    values: dict[str, list[Any]] = {}
    for pair in stored:
        values.setdefault(pair["n"], []).append(pair["v"])
    return {name: several if len(several) > 1 else several[0] for name, several in values.items()}


def index(field: str = "properties", *, before: Sequence[tuple[str, int]] = ()) -> Index:
    """Return the index for `matches`; `before` adds leading fields that every query gives, such as the type."""
    return Index([*before, (f"{field}.n", 1), (f"{field}.v", 1)], why="any property by equality or range")


def matches(wanted: Mapping[str, Value | Range], *, field: str = "properties") -> Document:
    """Return the filter for documents with all wanted properties, each equal to a value or inside a `Range`.

    The index gives exact bounds for one property, the most selective in the server's trial. The others are checked on
    the documents found.

    Raises: `Invalid` naming the property, for a bad name, value or range.
    """
    if not isinstance(wanted, Mapping) or len(wanted) > MAX_PAIRS:
        raise Invalid(f"{field} must be a mapping of at most {MAX_PAIRS} names", field=field, limit=MAX_PAIRS)
    conditions = [{"$elemMatch": {"n": _check_name(name, field), "v": _condition(value, f"{field}.{name}")}}
                  for name, value in wanted.items()]  # fmt: skip
    return {field: {"$all": conditions}} if conditions else {}


def _condition(value: Value | Range, field: str) -> Any:
    if not isinstance(value, Range):
        return _check_value(value, field)
    operators = value.operators()
    kinds = {_kind(_check_value(bound, field)) for bound in operators.values()}
    if len(kinds) != 1 or {"$gt", "$gte"} <= operators.keys() or {"$lt", "$lte"} <= operators.keys():
        raise Invalid(f"{field} must have at most one lower and one upper bound, both of one type", field=field)
    return operators


def _kind(value: Value) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _check_name(name: Any, field: str) -> str:
    return checks.text(name, f"{field} name", min_length=1, max_length=MAX_NAME_LENGTH)


def _check_value(value: Any, field: str) -> Value:
    if isinstance(value, str):
        return checks.text(value, field, max_length=MAX_TEXT_LENGTH)
    if isinstance(value, int) and not isinstance(value, bool):
        return checks.integer(value, field)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, datetime):
        return checks.time(value, field) if value.tzinfo else value  # one without a zone is UTC to the driver
    if isinstance(value, bool):
        return value
    raise Invalid(f"{field} must be a string, a finite number, true, false or a time", field=field)
