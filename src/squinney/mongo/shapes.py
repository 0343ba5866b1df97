"""The fields and types that a stored document needs to be used, checked in Python and on the server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from squinney.mongo.schema import Document

Shape = Mapping[str, type]
IN_BSON: Mapping[type, list[str]] = {str: ["string"], int: ["int", "long"], datetime: ["date"], list: ["array"]}


def fits(document: Any, shape: Shape) -> bool:
    """Return whether a value is a document with these fields of these types; a bool does not count as a number."""
    return isinstance(document, dict) and all(
        isinstance(document.get(name), kind) and not isinstance(document[name], bool) for name, kind in shape.items()
    )


def mismatches(shape: Shape) -> list[Document]:
    """Return conditions for the server: a document that does not have the shape matches at least one of them."""
    return [{name: {"$not": {"$type": IN_BSON[kind]}}} for name, kind in shape.items()]
