"""Whether a ledger runs its transfers natively or in two phases: one of them, for good.

Neither heeds the locks of the other. The first operation that writes records which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pymongo.client_session import ClientSession

from squinney.errors import Conflict
from squinney.ledger.documents import ACCOUNTS, PROTOCOL
from squinney.mongo.schema import Db
from squinney.transactions import Key, Outcome, Plan, Step, Transactions, once
from squinney.transactions.two_phase import TwoPhase

RECORD_ID = "ledger"
NATIVE, TWO_PHASE = "native", "two-phase"
Steps = list[Step] | Plan
T = TypeVar("T")


class Runs:
    """Runs a ledger's plans, once it is known that the ledger uses this protocol."""

    def __init__(self, db: Db, runner: Transactions | TwoPhase) -> None:
        self._db = db
        self._runner = runner
        self._is_known = False

    def run(
        self, kind: str, steps: Steps | Callable[[], Steps], *, key: str | Key | None, arguments: Mapping[str, Any]
    ) -> Outcome:
        """Run the steps, as the runner does."""
        self.require_protocol()
        return self._runner.run(kind, steps, key=key, arguments=arguments)

    def once(
        self, kind: str, work: Callable[[ClientSession], T], *, key: str | Key | None, arguments: Mapping[str, Any]
    ) -> T:
        """Run `work` once per key in one transaction.

        Raises: `Conflict` for a two-phase ledger.
        """
        self.require_protocol()
        # guard: many transfers at once need a native ledger
        if isinstance(self._runner, TwoPhase):
            raise Conflict("a two-phase ledger cannot do this: it needs one transaction", protocol=TWO_PHASE)
        return once(self._db, kind, work, key=key, arguments=arguments, own={ACCOUNTS.name, "ledger.entries"})

    def require_protocol(self) -> None:
        """Record the protocol of a new ledger, and refuse a ledger of the other one; only once per object.

        Raises: `Conflict`.
        """
        if self._is_known:
            return
        wanted = TWO_PHASE if isinstance(self._runner, TwoPhase) else NATIVE
        # guard: a ledger uses one protocol
        if (recorded := protocol_of(self._db) or _record(self._db, wanted)) != wanted:
            advice = "Accounts(db, transactions=TwoPhase(db))" if recorded == TWO_PHASE else "Accounts(db)"
            raise Conflict(f"this ledger is {recorded} for good: use {advice}", protocol=recorded)
        self._is_known = True


def protocol_of(db: Db) -> str | None:
    """Return the recorded protocol, or None for a ledger in which nothing was written yet."""
    record = db[PROTOCOL.name].find_one({"_id": RECORD_ID})
    return record["protocol"] if record else None


def _record(db: Db, wanted: str) -> str:
    """Record the protocol, unless another process has just done so; return what is recorded."""
    record: Any = db[PROTOCOL.name].find_one_and_update(
        {"_id": RECORD_ID},
        # guard: the protocol is recorded once
        {"$setOnInsert": {"protocol": wanted}},
        upsert=True,
        return_document=True,
    )
    return str(record["protocol"])
