"""How sure a write must be before it counts, by name."""

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
    """The write concern of a level's name, or of a number of members that must have it.

    Raises: `Invalid`.
    """
    if isinstance(durability, int) and not isinstance(durability, bool) and 1 <= durability <= 50:
        return WriteConcern(w=durability)
    if isinstance(durability, str) and durability in LEVELS:
        return LEVELS[durability]
    known = f"durability must be one of {', '.join(LEVELS)}, or a number of members from 1 to 50"
    raise Invalid(known, field="durability")


def for_import(durability: Any) -> WriteConcern:
    """The same for imports, whose checkpoints need to know what was stored.

    Raises: `Invalid` also for fire-and-forget.
    """
    concern = write_concern(durability)
    if not concern.acknowledged:
        raise Invalid("an import cannot fire and forget: its checkpoints follow what was stored", field="durability")
    return concern
