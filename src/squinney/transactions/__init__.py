"""Operations over several documents, as guarded steps, run natively or by a two-phase protocol."""

from squinney.transactions.attempts import in_transaction
from squinney.transactions.errors import AlreadyExists, Busy, KeyReused, Stale, StillRunning, TimedOut
from squinney.transactions.keyed import once
from squinney.transactions.orphans import drop_orphans, find_orphans
from squinney.transactions.records import COLLECTIONS, KEEP_KEYS_SECONDS, QUERIES, Outcome, is_open
from squinney.transactions.runner import Mode, Transactions, find_stuck
from squinney.transactions.steps import AT_REST, Plan, Step, visible

__all__ = [
    "AT_REST",
    "COLLECTIONS",
    "KEEP_KEYS_SECONDS",
    "QUERIES",
    "AlreadyExists",
    "Busy",
    "KeyReused",
    "Mode",
    "Outcome",
    "Plan",
    "Stale",
    "Step",
    "StillRunning",
    "TimedOut",
    "Transactions",
    "drop_orphans",
    "find_orphans",
    "find_stuck",
    "in_transaction",
    "is_open",
    "once",
    "visible",
]
