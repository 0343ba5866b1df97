"""Multi-document operations as guarded steps, run as a native transaction or by a two-phase protocol."""

from squinney.transactions.attempts import Tries, in_transaction
from squinney.transactions.errors import (
    AlreadyExists,
    Busy,
    KeyReused,
    Stale,
    StillRunning,
    TimedOut,
    WriteRefused,
)
from squinney.transactions.keyed import once
from squinney.transactions.orphans import drop_orphans, find_orphans
from squinney.transactions.records import COLLECTIONS, KEEP_KEYS_SECONDS, QUERIES, Key, Outcome, open_run
from squinney.transactions.runner import Mode, Transactions, find_stuck
from squinney.transactions.steps import PROTOCOL_FIELDS, UNLOCKED, Plan, Step, visible

__all__ = [
    "COLLECTIONS",
    "KEEP_KEYS_SECONDS",
    "PROTOCOL_FIELDS",
    "QUERIES",
    "UNLOCKED",
    "AlreadyExists",
    "Busy",
    "Key",
    "KeyReused",
    "Mode",
    "Outcome",
    "Plan",
    "Stale",
    "Step",
    "StillRunning",
    "TimedOut",
    "Transactions",
    "Tries",
    "WriteRefused",
    "drop_orphans",
    "find_orphans",
    "find_stuck",
    "in_transaction",
    "once",
    "open_run",
    "visible",
]
