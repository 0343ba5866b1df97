"""Repairs what can be repaired without a decision."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from squinney import assembly
from squinney.errors import Conflict
from squinney.mongo import schema
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import MALFORMED, raise_if_away
from squinney.mongo.schema import Collection, Db
from squinney.system import System

log = logging.getLogger(__name__)

REPAIR_SECONDS = 300.0


def _repaired(db: Db, system: System) -> Mapping[str, int]:
    try:
        return system.repair(db)
    except MALFORMED as error:
        raise_if_away(error)
        log.exception("the repair of %s failed", system.name)
        return {"stopped by malformed data": 1}


def _apply_schema(db: Db, declared: list[Collection], adopt: Sequence[str]) -> int:
    """Apply the schema one collection at a time, so that a conflicting index does not block the other collections."""
    owned = schema.require_ours(db, declared, adopt)  # for all together, before anything is changed
    before = schema.check(db, declared)
    owned.record_intent()
    drifted = {drift.collection for drift in before}
    for collection in declared:
        if collection.name in drifted:
            with suppress(Conflict):
                schema.apply(db, [collection])
    return len(before) - len(schema.check(db, declared))


def repair(
    db: Db,
    *,
    seconds: float | None = REPAIR_SECONDS,
    systems: Sequence[System] = assembly.SYSTEMS,
    adopt: Sequence[str] = (),
) -> Counter[str]:
    """Create missing collections and indexes, repair what each system can repair, and return counts.

    Atomic: each index and each document separately.
    After a crash: run it again.
    Raises: `NotOurs` for collections that somebody else made, before anything is changed; `Unavailable`.
    """
    db = pinned(db)
    with operation(seconds):
        done = Counter({"collections and indexes": _apply_schema(db, assembly.collections(systems), adopt)})
        # guard: a system whose documents wait for a migration is not repaired
        ready = [system for system in systems if not assembly.required_migrations(db, [system])]
        for system in ready:
            done.update({f"{system.name}: {name}": count for name, count in _repaired(db, system).items()})
    return +done
