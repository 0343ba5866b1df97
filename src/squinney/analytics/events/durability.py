"""Durability levels by name, and their write concerns."""

from __future__ import annotations

from typing import Any

from pymongo.write_concern import WriteConcern

from squinney.errors import Invalid

Durability = str | int

LEVELS = {
    "fire-and-forget": WriteConcern(w=0),
    "acknowledged": WriteConcern(w=1),
    "journaled": WriteConcern(w=1, j=True),
    "replicated": WriteConcern(w="majority"),
}


def write_concern(durability: Any) -> WriteConcern:
    """Return the write concern for a level's name, or for a number of members that must confirm the write."""
    if isinstance(durability, int) and not isinstance(durability, bool) and 1 <= durability <= 50:
        return WriteConcern(w=durability)
    if isinstance(durability, str) and durability in LEVELS:
        return LEVELS[durability]
    message = f"durability must be one of {', '.join(LEVELS)}, or a number of members from 1 to 50"
    raise Invalid(message, field="durability")
