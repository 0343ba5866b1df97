"""The book's two-phase protocol, for ledgers that choose it: `TwoPhase` runs the same steps as `Transactions`."""

from squinney.transactions.two_phase.documents import (
    COLLECTIONS,
    LOCK_FIELD,
    PROTOCOL_FIELDS,
    QUERIES,
    STUB_FIELD,
    UNLOCKED,
    visible,
)
from squinney.transactions.two_phase.errors import StillRunning, TimedOut
from squinney.transactions.two_phase.orphans import drop_orphans, find_orphans
from squinney.transactions.two_phase.recovering import recover
from squinney.transactions.two_phase.runner import TwoPhase
from squinney.transactions.two_phase.stuck import find_stuck, finish_stuck, stuck_runs, undo_stuck

__all__ = [
    "COLLECTIONS",
    "LOCK_FIELD",
    "PROTOCOL_FIELDS",
    "QUERIES",
    "STUB_FIELD",
    "UNLOCKED",
    "StillRunning",
    "TimedOut",
    "TwoPhase",
    "drop_orphans",
    "find_orphans",
    "find_stuck",
    "finish_stuck",
    "recover",
    "stuck_runs",
    "undo_stuck",
    "visible",
]
