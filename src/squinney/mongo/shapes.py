"""What a stored document must have to be shown or computed with, asked of it here and on the server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from squinney.mongo.schema import Document

Shape = Mapping[str, type]
IN_BSON: Mapping[type, list[str]] = {str: ["string"], int: ["int", "long"], datetime: ["date"], list: ["array"]}


def fits(document: Any, shape: Shape) -> bool:
    """Whether it is a document with these fields, of these types; True and False are no numbers."""
    return isinstance(document, dict) and all(
        isinstance(document.get(name), kind) and not isinstance(document[name], bool) for name, kind in shape.items()
    )


def mismatches(shape: Shape) -> list[Document]:
    """The same for the server: one of these matches what does not fit."""
    return [{name: {"$not": {"$type": IN_BSON[kind]}}} for name, kind in shape.items()]
