"""`ActionRunner`: plans an action, and runs the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from squinney.clock import Clock
from squinney.errors import SquinneyError
from squinney.game.actions.draft import Draft
from squinney.game.documents import Event
from squinney.game.records import CachedRecords, DocumentCache, Records
from squinney.transactions import Key, Plan, Step, Transactions

# A function that fills the draft, given with the action's arguments, and returns the event of the action.
PlanAction = Callable[..., Event]


class ActionRunner:
    """Runs the actions of characters, each as one `Transactions` run."""

    def __init__(
        self,
        transactions: Transactions,
        records: Records,
        cache: DocumentCache,
        *,
        clock: Clock,
        acts_per_minute: int,
    ) -> None:
        self._transactions = transactions
        self._records = records
        self._cache = cache
        self._clock = clock
        self._acts_per_minute = acts_per_minute

    def run(
        self, kind: str, plan_action: PlanAction, key: str | Key | None, also: Sequence[Step], /, **arguments: Any
    ) -> Event:
        """Run an action and the steps `also`, planned from the cache, or from the database if that was stale."""
        drafts: list[Draft] = []

        def plan() -> Plan:
            # guard: after a stale plan the action is planned from the database
            draft, planned = self._plan(plan_action, arguments, use_cache=not drafts)
            drafts.append(draft)
            return planned.also(also)

        outcome = self._transactions.run(f"game {kind}", plan, key=key, arguments=arguments)
        # A repeat with the same key returns the first run's event: then the draft was not committed.
        if drafts and any(outcome.result is event for event in drafts[-1].events):
            drafts[-1].update_cache(self._cache)
        return cast(Event, outcome.result)

    def _plan(self, plan_action: PlanAction, arguments: Mapping[str, Any], *, use_cache: bool) -> tuple[Draft, Plan]:
        records = CachedRecords(self._records, self._cache, use_cache=use_cache)
        draft = Draft(self._clock(), records)
        try:
            event = plan_action(draft, **arguments)
            if self._acts_per_minute:
                draft.count_acts(self._acts_per_minute)
            return draft, Plan(draft.steps(), result=event)
        except SquinneyError:
            # guard, 2 lines: an error while planning from the cache does not refuse the action
            if not records.has_used_cache:
                raise
            return self._plan(plan_action, arguments, use_cache=False)
