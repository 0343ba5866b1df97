"""The catalog's search filters as query parameters."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Depends, Query

Text = Annotated[str | None, Query(min_length=1, max_length=200)]
Property = Annotated[
    list[str],
    Query(
        max_length=5,
        description="`name:value`; a product must have all of them. Numbers, `true` and `false` are not text unless "
        "they are in double quotes",
    ),
]


def _filters(
    type: Text = None,
    category: Text = None,
    genre: Text = None,
    actor: Text = None,
    discount_over: Annotated[int | None, Query(ge=0, le=100)] = None,
    price_from: Annotated[int | None, Query(ge=0)] = None,
    price_to: Annotated[int | None, Query(ge=0)] = None,
    title_prefix: Text = None,
    words: Text = None,
    property: Property = [],  # noqa: B006 - FastAPI copies it
) -> dict[str, Any]:
    given: dict[str, Any] = {
        "type": type,
        "category": category,
        "genre": genre,
        "actor": actor,
        "discount_over": discount_over,
        "title_prefix": title_prefix,
        "words": words,
    }
    if price_from is not None or price_to is not None:
        given["price_between"] = (price_from or 0, 10**15 if price_to is None else price_to)
    if property:
        given["properties"] = {name: _value(text) for name, _, text in (pair.partition(":") for pair in property)}
    return {name: value for name, value in given.items() if value is not None}


def _value(text: str) -> Any:
    """Parse a property's value: a number, a boolean or a quoted string in JSON, else the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, str | int | float) else text


Filters = Annotated[dict[str, Any], Depends(_filters)]
