"""Opening the systems for a process that serves or works: what it changes in the database before, and what it says."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.system import Assembled, System

log = logging.getLogger(__name__)


def open_to_serve(connection: Connection, chosen: Sequence[System]) -> Assembled:
    """Build the systems on a database that has what they need.

    The embedded server is ours: there, what is missing is created, and what an older version left is brought over. On
    any other server people decide when: nothing is changed, and what differs is logged.

    Atomic: each collection, each index and each batch by itself.
    After a crash: run it again.
    Raises: `NotPrepared`; `NotOurs`; `FormerNames`; `Conflict`, like `schema.apply`.
    """
    db, declared = connection.db, assembly.collections(chosen)
    if connection.embedded:
        assembly.rename_former(db, chosen)
        schema.apply(db, declared)
        assembly.run_required_migrations(db, chosen)
    else:
        # guard: a server of somebody's own is not changed
        for drift in schema.require_usable(db, declared):
            log.warning("%s; `squinney indexes --apply` creates what is missing", drift)
    return assembly.assemble(db, systems=chosen)
