"""Multi-document operations as guarded steps, each run as one MongoDB transaction."""

from squinney.transactions.abandoned import end_abandoned
from squinney.transactions.attempts import Tries, in_transaction
from squinney.transactions.commits import apply_steps
from squinney.transactions.errors import AlreadyExists, Busy, KeyReused, Stale, WriteRefused
from squinney.transactions.keys import COLLECTIONS, KEEP_KEYS_SECONDS, KEYS, QUERIES, Key, Outcome
from squinney.transactions.runner import Transactions, once
from squinney.transactions.steps import CHECKS_FIELD, Plan, Step, require_apart

__all__ = [
    "CHECKS_FIELD",
    "COLLECTIONS",
    "KEEP_KEYS_SECONDS",
    "KEYS",
    "QUERIES",
    "AlreadyExists",
    "Busy",
    "Key",
    "KeyReused",
    "Outcome",
    "Plan",
    "Stale",
    "Step",
    "Transactions",
    "Tries",
    "WriteRefused",
    "apply_steps",
    "end_abandoned",
    "in_transaction",
    "once",
    "require_apart",
]
